"""The server: it listens on one address of this machine until Ctrl-C."""

import os
import socket
import webbrowser
from types import FrameType

import uvicorn

from solfa.errors import ConfigError
from solfa.studio.app import make_app
from solfa.studio.context import Studio
from solfa.studio.events import Leaving

GRACE_SECONDS = 3
"""How long answers that are under way may take after Ctrl-C."""


def listen(host: str, port: int) -> socket.socket:
    """Take a port, 0 for any that is free; refuse one that somebody has."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        # So that a studio that was just stopped can be started again at once.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
        taken.listen()  # who comes before all is imported waits
    except OSError as error:
        taken.close()
        reason = error.strerror or str(error)
        raise ConfigError(f"`port` {port}: cannot listen on {host} ({reason}); choose another `port`") from None
    return taken


def serve(studio: Studio, listening: socket.socket, *, open_page: str | None = None) -> None:
    """Answer until a signal; `open_page` is opened in a browser as soon as the server answers."""
    # Nothing is asked for outside of this machine: what the Hub has is used if it was fetched before. This is read when
    # somebody first loads a codec or a model.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    config = uvicorn.Config(
        make_app(studio),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        lifespan="off",
    )
    _Server(config, studio.leaving, open_page).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Ends connections that stay open before it waits for the others."""

    def __init__(self, config: uvicorn.Config, leaving: Leaving, open_page: str | None) -> None:
        super().__init__(config)
        self._leaving, self._open_page = leaving, open_page

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._open_page is not None:
            webbrowser.open(self._open_page)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._leaving.begin()
        super().handle_exit(sig, frame)
