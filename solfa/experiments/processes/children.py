"""Child processes that end with this one, however it ends.

SIGTERM, SIGINT and SIGHUP to this process become one SIGTERM to each child, which can then save its state; whatever
still runs after a while is killed. Each child leads its own process group, so that Ctrl-C reaches it only this way and
anything it started can be ended with it. If this process is killed outright, a pipe that it held open closes; the
children watch the other end (`watch_parent`) and stop themselves.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from solfa.environment.parent_watch import end_with_parent
from solfa.errors import ConfigError

GRACE_SECONDS = 60.0
"""How long a child may take to save its state."""
PIPE = "SOLFA_PARENT_PIPE"
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))

Child = subprocess.Popen[bytes]


class Family:
    """While entered, collects signals in `received`; on exit, ends every child that is still running."""

    def __init__(self, grace_seconds: float = GRACE_SECONDS) -> None:
        self.received: list[int] = []
        """The signals that arrived, in order."""
        self.children: list[Child] = []
        self._grace_seconds = grace_seconds
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Family":
        self._watched, self._held = os.pipe()
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.end()
        finally:
            os.close(self._watched)
            os.close(self._held)
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)

    @property
    def exit_code(self) -> int:
        """The exit code of a process that a signal ended; 0 if none arrived."""
        return 128 + self.received[0] if self.received else 0

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], output: Path | None = None) -> Child:
        """Start a child; its output is appended to `output`, if given."""
        if sys.platform == "win32":
            raise ConfigError("several processes need Linux or macOS, found Windows; run them in WSL")
        with (output or Path(os.devnull)).open("ab") as file:
            child = subprocess.Popen(
                list(arguments),
                env={**environment, PIPE: str(self._watched)},
                stdin=subprocess.DEVNULL,
                stdout=file if output else None,
                stderr=subprocess.STDOUT if output else None,
                pass_fds=(self._watched,),
                process_group=0,
            )
        self.children.append(child)
        return child

    def end(self) -> None:
        """Ask every running child to stop, and kill those that do not in time, or on a second Ctrl-C."""
        asked = [child for child in self.children if child.poll() is None]
        for child in asked:
            child.terminate()
        deadline = time.monotonic() + self._grace_seconds
        while any(child.poll() is None for child in asked) and time.monotonic() < deadline:
            if self.received.count(signal.SIGINT) > 1:
                break
            time.sleep(0.02)
        for child in asked:
            if child.poll() is None:
                with suppress(ProcessLookupError):
                    _kill_group(child.pid)
                child.wait()


def _kill_group(leader: int) -> None:
    """End a process and what it started, such as its data workers."""
    if sys.platform != "win32":  # where none is started
        os.killpg(leader, signal.SIGKILL)


def watch_parent(environment: MutableMapping[str, str], grace_seconds: float = GRACE_SECONDS) -> None:
    """Stop this process when the one that started it in a `Family` is gone."""
    # Removed, so that processes started by this one do not read from a descriptor they do not have.
    pipe = environment.pop(PIPE, None)
    if pipe is None:
        return
    watched = int(pipe)

    def until_gone() -> None:
        with suppress(OSError):
            os.read(watched, 1)  # returns only when the other end is closed: nothing is ever written

    def stop() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace_seconds)
        _kill_group(0)

    end_with_parent(until_gone, stop)
