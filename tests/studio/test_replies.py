"""Parts of a sound: what a player asks for is what it gets."""

from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from solfa.studio.replies import byte_range, medium

CONTENT = bytes(range(200))


def answer(request: Request) -> Response:
    return medium(request, CONTENT, "audio/flac")


client = TestClient(Starlette(routes=[Route("/", answer)]))


@given(st.integers(0, 250), st.integers(0, 250))
def test_parts_are_those_of_the_whole(first: int, last: int) -> None:
    got = client.get("/", headers={"range": f"bytes={first}-{last}"})
    expected = CONTENT[first : last + 1]
    if expected:
        assert (got.status_code, got.content) == (206, expected)
        assert got.headers["content-range"] == f"bytes {first}-{first + len(expected) - 1}/{len(CONTENT)}"
    else:
        assert got.status_code == 416


def test_ends_and_beginnings() -> None:
    assert client.get("/", headers={"range": "bytes=150-"}).content == CONTENT[150:]
    assert client.get("/", headers={"range": "bytes=-7"}).content == CONTENT[-7:]
    assert byte_range("bytes=-", 9) is None and byte_range("chars=1-2", 9) is None and byte_range("bytes=-0", 9) is None
    assert byte_range(f"bytes={'9' * 5000}-", 9) is None


def test_what_a_browser_has_is_not_sent_again() -> None:
    whole = client.get("/")
    assert whole.content == CONTENT and whole.headers["accept-ranges"] == "bytes"
    assert client.get("/", headers={"if-none-match": whole.headers["etag"]}).status_code == 304
    stale = client.get("/", headers={"range": "bytes=1-2", "if-range": '"another"'})
    assert (stale.status_code, stale.content) == (200, CONTENT)
