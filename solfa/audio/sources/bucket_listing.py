"""The objects of a prefix, listed page by page into a database, which puts them in the order of their names.

    SOLFA_CACHE_DIR/listings/<hash of the address>.sqlite     what was listed so far, and behind which key to go on

A million objects take no more memory than a hundred. The database is gone when everybody who asked has seen its
recordings; a process that was killed leaves it, and the next one asks the store only for the rest. What is older than
an hour is not continued: objects may have come since in the part that would not be asked for again.
"""

import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from solfa.audio.file_types import is_audio_name
from solfa.audio.sources.folder_walk import is_tar_name
from solfa.files.cache_folder import cache_folder
from solfa.files.chunks import chunks
from solfa.files.crash_points import crash_point
from solfa.files.digest import value_sha256
from solfa.files.printable_names import escape_path
from solfa.files.stores.bucket_store import BucketStore, continues_behind
from solfa.files.stores.protocol import Entry

SIDECARS = (".txt", ".json")
ROWS_AT_ONCE = 1_000
KEPT_SECONDS = 3600.0
_VERSION = 1


class Reached(NamedTuple):
    """How far a listing has come."""

    key: str | None = None
    """The key behind which it can be continued; None from the beginning."""
    num_objects: int = 0
    """How many were listed up to there."""
    is_complete: bool = False


def reached_in(keys: Sequence[str], before: Reached) -> Reached:
    """Find the last of some listed keys behind which a listing can be continued."""
    for index, (key, following) in reversed(list(enumerate(pairwise(keys), 1))):
        if continues_behind(key, following):
            return Reached(key, before.num_objects + index)
    return before


class Listing:
    """The objects that matter of a prefix, in a database."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        if database.execute("PRAGMA user_version").fetchone() != (_VERSION,):
            database.execute("CREATE TABLE objects (name TEXT PRIMARY KEY, key TEXT, size INTEGER, etag TEXT)")
            database.execute("CREATE TABLE sidecars (key TEXT PRIMARY KEY, size INTEGER, etag TEXT)")
            database.execute("CREATE TABLE reached (key TEXT, num_objects INTEGER, is_complete INTEGER)")
            database.execute("INSERT INTO reached VALUES (?, ?, ?)", Reached())
            database.execute(f"PRAGMA user_version = {_VERSION}")
            database.commit()

    def complete(self, store: BucketStore, on_listed: Callable[[int], None]) -> None:
        """List what is missing."""
        reached = Reached(*self._database.execute("SELECT * FROM reached").fetchone())
        if reached.key is not None:
            on_listed(reached.num_objects)
        if reached.is_complete:
            return
        known: list[str] = []  # listed, but behind the key at which a listing would be continued
        for entries in chunks(store.list(after=reached.key), ROWS_AT_ONCE):
            keys = [*known, *(entry.key for entry in entries)]
            before, reached = reached, reached_in(keys, reached)
            known = keys[reached.num_objects - before.num_objects :]
            self._add(entries, reached)
            on_listed(reached.num_objects + len(known))
            crash_point("listing:page")
        self._add([], reached._replace(num_objects=reached.num_objects + len(known), is_complete=True))

    def _add(self, entries: list[Entry], reached: Reached) -> None:
        """Add those that are audio, tars, or may be next to audio; hidden ones are skipped."""
        seen = [entry for entry in entries if not any(part.startswith(".") for part in entry.key.split("/"))]
        audio = [entry for entry in seen if is_audio_name(entry.key) or is_tar_name(entry.key)]
        self._database.executemany(
            "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)",
            [(escape_path(entry.key), entry.key, entry.size_bytes, entry.version) for entry in audio],
        )
        self._database.executemany(
            "INSERT OR REPLACE INTO sidecars VALUES (?, ?, ?)",
            [entry[:3] for entry in seen if entry.key.endswith(SIDECARS)],
        )
        self._database.execute("UPDATE reached SET key = ?, num_objects = ?, is_complete = ?", reached)
        self._database.commit()  # objects and how far they reach, or neither

    def audio(self) -> Iterator[Entry]:
        """List audio and tars in the order of their escaped names."""
        for key, size_bytes, etag in self._database.execute("SELECT key, size, etag FROM objects ORDER BY name"):
            yield Entry(key, size_bytes, etag, 0.0)

    def sidecars(self, key: str) -> list[Entry]:
        """Find what is next to an audio file."""
        keys = [key.rpartition(".")[0] + extension for extension in SIDECARS]
        rows: list[Any] = self._database.execute("SELECT * FROM sidecars WHERE key IN (?, ?)", keys).fetchall()
        return [Entry(found, size_bytes, etag, 0.0) for found, size_bytes, etag in rows]


@contextmanager
def listed_objects(store: BucketStore, on_listed: Callable[[int], None]) -> Iterator[Listing]:
    """List a prefix, or the rest of it; who is through with the listing leaves nothing behind."""
    with _database_file(store) as path:
        if not _is_sound(path):
            os.truncate(path, 0)
        try:
            with closing(sqlite3.connect(path)) as database:
                # Safe when a process is killed; what a power cut damages is listed again.
                database.execute("PRAGMA synchronous = OFF")
                listing = Listing(database)
                listing.complete(store, on_listed)
                yield listing
        except GeneratorExit:  # whoever asked has seen enough
            _remove(path)
            raise
        _remove(path)


@contextmanager
def _database_file(store: BucketStore) -> Iterator[Path]:
    """Name the file of a listing that nobody else works on: that of the address, or one that cannot be continued."""
    kept = cache_folder() / "listings" / f"{value_sha256([str(store), store.endpoint])}.sqlite"
    descriptor = _open_alone(kept)
    path = store.temporary("listing") if descriptor is None else kept
    try:
        yield path
    finally:
        if descriptor is None:
            _remove(path)
        else:
            os.close(descriptor)


def _open_alone(path: Path) -> int | None:
    """Keep others away from a file until its descriptor is closed; None if somebody has it, or it cannot be had."""
    if sys.platform == "win32":  # which has no flock
        return None
    import fcntl

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in path.parent.glob("*.sqlite"):
            if time.time() - old.stat().st_mtime > KEPT_SECONDS:
                _remove(old)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever had it may have removed it between our two steps.
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    os.close(descriptor)
    return None


def _is_sound(path: Path) -> bool:
    """Say whether a database is whole, or there is none yet."""
    try:
        with closing(sqlite3.connect(path)) as database:
            return bool(database.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.DatabaseError:
        return False


def _remove(path: Path) -> None:
    for name in (path.name, f"{path.name}-journal"):
        path.with_name(name).unlink(missing_ok=True)
