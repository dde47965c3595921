"""The cache: what was made stays while there is room, and is made once, however many ask."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from solfa.studio.byte_cache import ByteCache


def test_the_least_recently_used_goes_first() -> None:
    cache, made = ByteCache(max_bytes=10), list[str]()

    def ask(key: str) -> bytes:
        return cache.get(key, lambda: made.append(key) or key.encode() * 4)

    for key in ("a", "b", "a", "c", "a", "b"):
        assert ask(key) == key.encode() * 4
    assert made == ["a", "b", "c", "b"]


def test_many_who_ask_at_once_get_the_same_and_it_is_made_once() -> None:
    cache, made, everybody = ByteCache(), list[int](), threading.Barrier(8)

    def ask(_: int) -> bytes:
        everybody.wait()
        return cache.get("key", lambda: made.append(1) or b"made")

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(8))) == {b"made"}
    assert made == [1]


def test_an_error_is_not_kept() -> None:
    cache = ByteCache()

    def fail() -> bytes:
        raise ValueError("not now")

    with pytest.raises(ValueError, match="not now"):
        cache.get("key", fail)
    assert cache.get("key", lambda: b"now") == b"now"
