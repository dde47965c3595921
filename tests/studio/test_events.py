"""Events: everybody who listens hears of a change, once, and nobody keeps the server from ending."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import count

from solfa.studio.events import Event, Feed, Leaving, event_response


async def _collect(feed: Feed, num_events: int) -> list[Event]:
    found: list[Event] = []
    async for event in feed.events():
        if event is not None:
            found.append(event)
        if len(found) == num_events:
            break
    return found


def test_every_listener_hears_every_change_once() -> None:
    looks = count()

    async def listen() -> list[list[Event]]:
        feed = Feed(lambda: next(looks) // 3, Leaving(), seconds=0.01)  # the same three times
        return await asyncio.gather(_collect(feed, 4), _collect(feed, 4))

    for heard in asyncio.run(listen()):
        values = [event.data for event in heard]
        assert values == sorted(set(values))


def test_several_listeners_share_what_was_seen() -> None:
    looks = count()

    async def listen() -> list[list[Event]]:
        feed = Feed(lambda: next(looks), Leaving(), seconds=600.0)
        return await asyncio.gather(*(_collect(feed, 1) for _ in range(5)))

    assert asyncio.run(listen()) == [[Event("changed", 0)]] * 5
    assert next(looks) == 1


def test_listening_ends_when_the_server_does() -> None:
    leaving = Leaving()

    async def listen() -> list[Event]:
        feed = Feed(lambda: "same", leaving, seconds=60.0)
        asyncio.get_running_loop().call_later(0.05, leaving.begin)
        return await asyncio.wait_for(_collect(feed, 2), 30)

    assert [event.data for event in asyncio.run(listen())] == ["same"]


def test_an_event_is_what_browsers_read() -> None:
    async def events() -> AsyncIterator[Event | None]:
        yield Event("changed", {"text": "two\nlines"})
        yield None

    async def read() -> str:
        return "".join([str(part) async for part in event_response(events()).body_iterator])

    retry, event, comment, rest = asyncio.run(read()).split("\n\n")
    assert retry.startswith("retry: ") and comment.startswith(":") and rest == ""
    name, data = event.split("\n")
    assert name == "event: changed"
    assert json.loads(data.removeprefix("data: ")) == {"text": "two\nlines"}
