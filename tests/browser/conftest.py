"""A real browser, Debian's chromium, and a real server in a process of its own, as a user starts it.

Whatever a page writes to the console as an error fails its test, and so does any request that leaves this machine.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.scale.debian_packages import UnavailableError, library_path, unpack

if TYPE_CHECKING:  # only `make test-browser` installs it
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

MANY_COLOURS = 4096
IMAGES = Path(__file__).parents[2] / "docs/images"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--autoplay-policy=no-user-gesture-required",
)


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    program, variables = _chromium(request.config.cache)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=list(FLAGS), env={**os.environ, **variables})
        yield running
        running.close()


def _chromium(cache: pytest.Cache) -> tuple[str, dict[str, str]]:
    """Find a browser, or fetch and unpack Debian's with the libraries that this machine lacks."""
    found = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if found is not None:
        return found, {}
    try:
        root = unpack(["chromium"], cache.mkdir("chromium"), with_dependencies=True)
    except UnavailableError as error:
        pytest.skip(f"no chromium here, and none to be had: {error}")
    program, variables = str(root / "usr/lib/chromium/chromium"), {"LD_LIBRARY_PATH": library_path(root)}
    asked = subprocess.run(
        [program, "--version"], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    # Not skipped: whoever has apt can have a browser, and without one nobody would notice that nothing was tested.
    assert asked.returncode == 0, f"chromium was fetched, but does not run; apt-get install chromium:\n{asked.stderr}"
    return program, variables


class Visitor:
    """A person at a browser: opens pages, and remembers what went wrong on them."""

    def __init__(self, browser: Browser, address: str, **settings: Any) -> None:
        self.address = address
        self.context: BrowserContext = browser.new_context(base_url=address, **settings)
        self.context.set_default_timeout(30_000)
        self.errors: list[str] = []
        self.outside: list[str] = []
        self.context.on("request", self._note_request)
        self.page = self.new_page()

    def new_page(self) -> Page:
        page = self.context.new_page()
        page.on("console", self._note_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        return page

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.outside.append(request.url)


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visitor]]:
    """Let somebody come to a studio; in the end, no page may have had an error or asked for anything elsewhere."""
    visitors: list[Visitor] = []

    def come(address: str, **settings: Any) -> Visitor:
        visitors.append(Visitor(browser, address, **settings))
        return visitors[-1]

    yield come
    for visitor in visitors:
        visitor.context.close()
    assert [visitor.errors for visitor in visitors] == [[] for _ in visitors]
    assert [visitor.outside for visitor in visitors] == [[] for _ in visitors]


class Server:
    """`solfa studio` in a process of its own."""

    def __init__(self, arguments: list[str | Path], port: int = 0, **environment: str) -> None:
        command = [sys.executable, "-m", "solfa", "studio", *map(str, arguments), "--port", str(port)]
        variables = {**os.environ, **environment, "COLUMNS": "200"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=variables, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found is not None, f"expected an address, found {line!r}"
        self.address, self.port = found[0], int(found[1])

    def end(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(60)


@contextmanager
def serving(*arguments: str | Path, **environment: str) -> Iterator[Server]:
    """Run a studio; Ctrl-C ends it, and that is no error."""
    server = Server(list(arguments), **environment)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            assert server.end() == 0


@pytest.fixture(scope="module")
def studios() -> Iterator[Callable[..., Server]]:
    """Start studios that a module shares."""
    with ExitStack() as stack:
        yield lambda *arguments, **environment: stack.enter_context(serving(*arguments, **environment))


def wait_until(page: Page, expression: str, arg: Any = None, seconds: float = 60.0) -> None:
    """Wait for an expression to be true in a page.

    Playwright's own `wait_for_function` evaluates texts as scripts, which the pages forbid.
    """
    deadline = time.monotonic() + seconds
    while not page.evaluate(expression, arg):
        assert time.monotonic() < deadline, f"it did not become true: {expression}"
        page.wait_for_timeout(50)


def screenshot(page: Page, name: str, height: int = 700) -> None:
    """Make a picture of the top of a page for the documentation, if SCREENSHOTS is set."""
    if os.environ.get("SCREENSHOTS"):
        from PIL import Image

        page.set_viewport_size({"width": 1120, "height": height})
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(500)  # for pictures that are still being decoded
        taken = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        if len({colour for _, colour in taken.getcolors(1 << 24)}) > MANY_COLOURS:  # spectrograms, which would be large
            taken = taken.quantize(256, dither=Image.Dither.NONE)
        taken.save(IMAGES / f"{name}.png", optimize=True)
