"""Audio in an object store: every recording below a prefix, with the captions and metadata next to it.

Objects are listed page by page into a temporary database, which puts them in the order of their names and finds what
is next to each: a million of them take no more memory than a hundred, and the order is that of a folder with the same
files, whatever the store makes of it.
"""

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from solfa.audio.file_types import is_audio_name
from solfa.audio.recording import Recording
from solfa.audio.sources.folder_walk import is_tar_name
from solfa.audio.sources.metadata import MAX_SIDECAR_BYTES, SIDECAR_ERROR, merge_sidecars
from solfa.audio.sources.tar import tar_recordings
from solfa.files.chunks import chunks
from solfa.files.printable_names import escape_path
from solfa.files.stores.bucket_store import BucketStore
from solfa.files.stores.object_file import ObjectFile, version_number
from solfa.files.stores.protocol import Entry

log = logging.getLogger(__name__)

SIDECARS = (".txt", ".json")
ROWS_AT_ONCE = 10_000
SECONDS_BETWEEN_WORDS = 10.0


@dataclass(frozen=True)
class BucketSource:
    """Every audio file below a prefix, and every member of every tar."""

    root: BucketStore

    def recordings(self) -> Iterator[Recording]:
        with listed_objects(self.root) as listing:
            for name, key, size_bytes, etag in listing.audio():
                if is_tar_name(name):
                    yield from tar_recordings(ObjectFile(self.root, key), uri=name)
                else:
                    yield object_recording(self.root, name, Entry(key, size_bytes, etag, 0.0), listing.sidecars(key))


@dataclass(frozen=True)
class ObjectSource:
    """One audio file of an object store."""

    root: BucketStore
    name: str

    def recordings(self) -> Iterator[Recording]:
        entry = self.root.head(self.name)
        assert entry is not None, "whoever opened it has seen it"
        stem = self.name.rpartition(".")[0]
        found = [self.root.head(stem + extension) for extension in SIDECARS]
        yield object_recording(self.root, escape_path(self.name), entry, [side for side in found if side is not None])


def object_recording(store: BucketStore, name: str, entry: Entry, sidecars: list[Entry]) -> Recording:
    """Describe one audio file and what is next to it."""
    contents: dict[str, bytes] = {}
    faults = []
    for sidecar in sidecars:
        extension = sidecar.key[sidecar.key.rindex(".") :]
        if sidecar.size_bytes > MAX_SIDECAR_BYTES:
            faults.append(f"{extension}: is larger than {MAX_SIDECAR_BYTES:,} bytes")
        else:
            contents[extension] = store.read(sidecar.key)
    caption, metadata = merge_sidecars(contents.get(".txt"), contents.get(".json"))
    faults = [fault for fault in (metadata.get(SIDECAR_ERROR), *faults) if fault]
    return Recording(
        key=name,
        uri=name,
        size_bytes=entry.size_bytes,
        mtime_ns=version_number(entry.version),
        caption=caption,
        metadata=metadata | ({SIDECAR_ERROR: "; ".join(faults)} if faults else {}),
    )


class Listing:
    """The objects that matter of a prefix, in a database."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        database.execute("CREATE TABLE objects (name TEXT PRIMARY KEY, key TEXT, size INTEGER, etag TEXT)")
        database.execute("CREATE TABLE sidecars (key TEXT PRIMARY KEY, size INTEGER, etag TEXT)")

    def add(self, entries: list[Entry]) -> None:
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

    def audio(self) -> Iterator[tuple[str, str, int, str]]:
        """List audio and tars in the order of their escaped names."""
        yield from self._database.execute("SELECT name, key, size, etag FROM objects ORDER BY name")

    def sidecars(self, key: str) -> list[Entry]:
        """Find what is next to an audio file."""
        keys = [key.rpartition(".")[0] + extension for extension in SIDECARS]
        rows: list[Any] = self._database.execute("SELECT * FROM sidecars WHERE key IN (?, ?)", keys).fetchall()
        return [Entry(found, size_bytes, etag, 0.0) for found, size_bytes, etag in rows]


@contextmanager
def listed_objects(store: BucketStore) -> Iterator[Listing]:
    """List a prefix into a database that is gone afterwards."""
    path = store.temporary("listing")
    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            listing = Listing(database)
            told = time.monotonic()
            for number, entries in enumerate(chunks(store.list(), ROWS_AT_ONCE), 1):
                listing.add(entries)
                if time.monotonic() - told > SECONDS_BETWEEN_WORDS:
                    told = time.monotonic()
                    log.info("%s: listed %d objects so far", store, number * ROWS_AT_ONCE)
            yield listing
    finally:
        path.unlink(missing_ok=True)
