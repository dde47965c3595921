"""Server-sent events: a page keeps one connection open and hears when something has changed.

A browser reconnects by itself, also to a server that was started again. Each event has a name and one line of JSON.
"""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

RETRY_MILLISECONDS = 1000
"""After how long a browser tries again."""
QUIET_SECONDS = 15.0
"""After how long without an event a comment is sent, so that nothing on the way takes the connection for dead."""
STEP_SECONDS = 0.1


class Event(NamedTuple):
    """Something that a page hears of."""

    name: str
    data: Any

    def line(self) -> str:
        """Write it as browsers read it."""
        return f"event: {self.name}\ndata: {json.dumps(self.data, allow_nan=False)}\n\n"


class Leaving:
    """Whether the server is about to end: connections that stay open end first."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def begin(self) -> None:
        """End open connections."""
        self._event.set()

    @property
    def has_begun(self) -> bool:
        return self._event.is_set()


class Feed:
    """Looks at something again and again while somebody listens, and tells everybody who does when it has changed."""

    def __init__(self, look: Callable[[], Any], leaving: Leaving, seconds: float = 1.0) -> None:
        """`look` returns plain values, and runs in a thread; several listeners share what it finds."""
        self._look, self._leaving, self._seconds = look, leaving, seconds
        self._lock, self._looked, self._found = threading.Lock(), float("-inf"), None

    def _latest(self) -> Any:
        with self._lock:
            if time.monotonic() - self._looked >= self._seconds:
                self._found = self._look()
                self._looked = time.monotonic()
            return self._found

    async def events(self) -> AsyncIterator[Event | None]:
        """Yield what there is, and then what has changed, until the server ends; None says that nothing has."""
        before, said = object(), time.monotonic()
        while not self._leaving.has_begun:
            found = await run_in_threadpool(self._latest)
            if found != before or time.monotonic() - said > QUIET_SECONDS:
                yield None if found == before else Event("changed", found)
                before, said = found, time.monotonic()
            due = time.monotonic() + self._seconds
            while (left := due - time.monotonic()) > 0 and not self._leaving.has_begun:
                await asyncio.sleep(min(STEP_SECONDS, left))

    def response(self) -> StreamingResponse:
        """Answer with this feed."""
        return event_response(self.events())


def event_response(events: AsyncIterator[Event | None]) -> StreamingResponse:
    """Answer with events as they come; the connection stays open until they end. None is a sign of life."""
    return StreamingResponse(
        _lines(events), media_type="text/event-stream", headers={"cache-control": "no-store", "x-accel-buffering": "no"}
    )


async def _lines(events: AsyncIterator[Event | None]) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MILLISECONDS}\n\n"
    async for event in events:
        yield ": still here\n\n" if event is None else event.line()
