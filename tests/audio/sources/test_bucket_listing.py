"""A listing that was killed goes on where it was, and lists what a listing that nobody disturbed does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from solfa.audio import open_source
from solfa.audio.sources import bucket_listing
from solfa.files import BucketStore, store_at

ROOT = Path(__file__).parents[3]
KEYS = [
    *(f"a/{number:02d}.wav" for number in range(10)),
    "b.wav",  # an object, and a folder of the same name
    *(f"b.wav/{number:02d}.wav" for number in range(9)),
    *(f"c/{number:02d}.wav" for number in range(9)),
]
LIST = """
import sys
from solfa.audio import open_source
from solfa.audio.sources import bucket_listing
bucket_listing.ROWS_AT_ONCE = 4
print(*(recording.key for recording in open_source(sys.argv[1]).recordings()), sep="\\n")
"""


@pytest.fixture
def audio(bucket: str) -> str:
    store = store_at(f"{bucket}/audio")
    for key in KEYS:
        store.replace(key, b"")
    return str(store)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, int]]:
    """Behind which keys this process lists, and how many objects it is told of."""
    found: list[tuple[str | None, int]] = []
    listing = BucketStore.list

    def counted(self: BucketStore, folder: str = "", after: str | None = None) -> Iterator[object]:
        entries = list(listing(self, folder, after))
        found.append((after, len(entries)))
        return iter(entries)

    monkeypatch.setattr(BucketStore, "list", counted)
    return found


def kill(url: str, page: int) -> None:
    """List in another process, which is killed when it has listed so many pages of four."""
    environment = {**os.environ, "SOLFA_CRASH_AT": f"listing:page#{page}"}
    done = subprocess.run([sys.executable, "-c", LIST, url], cwd=ROOT, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL


def names(url: str, told: list[int] | None = None) -> list[str]:
    source = open_source(url, on_listed=lambda count: None if told is None else told.append(count))
    return [recording.key for recording in source.recordings()]


def test_a_killed_listing_goes_on_and_asks_only_for_the_rest(audio: str, asked: list[tuple[str | None, int]]) -> None:
    whole = names(audio)
    assert sorted(whole) == sorted(KEYS) and asked == [(None, len(KEYS))]
    for page in (3, 6):  # the third page ends with the first object below `b.wav`
        asked.clear()
        kill(audio, page)
        told: list[int] = []
        assert names(audio, told) == whole
        ((after, count),) = asked
        # Once more only those of which it is not known whether the store would leave out what is below them.
        assert after is not None and len(KEYS) - 4 * page < count <= len(KEYS) - 4 * page + 2
        assert told[0] == len(KEYS) - count and told[-1] == len(KEYS)
    assert not list(Path(os.environ["SOLFA_CACHE_DIR"]).glob("listings/*"))


@pytest.mark.slow
def test_two_kills_are_as_good_as_one_and_a_whole_listing_is_not_asked_for_again(
    audio: str, asked: list[tuple[str | None, int]]
) -> None:
    whole = names(audio)
    kill(audio, 2)
    kill(audio, 2)
    asked.clear()
    assert names(audio) == whole
    ((_, count),) = asked
    assert count < len(KEYS) - 11
    interrupted = open_source(audio).recordings()
    next(iter(interrupted))
    path = next(Path(os.environ["SOLFA_CACHE_DIR"]).glob("listings/*.sqlite"))
    kept = path.read_bytes()
    interrupted.close()  # type: ignore[attr-defined]
    path.write_bytes(kept)  # as a kill while the recordings were being opened leaves it
    asked.clear()
    assert names(audio) == whole and asked == []


@pytest.mark.slow
def test_what_is_old_damaged_or_in_use_is_not_continued(audio: str, asked: list[tuple[str | None, int]]) -> None:
    whole = names(audio)
    folder = Path(os.environ["SOLFA_CACHE_DIR"]) / "listings"
    for spoil in ("old", "damaged", "in use"):
        kill(audio, 3)
        (path,) = folder.glob("*.sqlite")
        asked.clear()
        if spoil == "old":
            long_ago = time.time() - bucket_listing.KEPT_SECONDS - 60
            os.utime(path, (long_ago, long_ago))
        elif spoil == "damaged":
            path.write_bytes(b"no database" * 1000)
        else:
            first = open_source(audio).recordings()
            next(iter(first))
            assert asked.pop()[0] is not None
        assert names(audio) == whole and asked == [(None, len(KEYS))], spoil
        if spoil == "in use":
            first.close()  # type: ignore[attr-defined]
        assert not list(folder.glob("*"))
