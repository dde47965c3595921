"""Audio in an object store: every recording below a prefix, with the captions and metadata next to it.

Objects are listed page by page into a temporary database, which puts them in the order of their names and finds what
is next to each: a million of them take no more memory than a hundred, and the order is that of a folder with the same
files, whatever the store makes of it.
"""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

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

SIDECARS = (".txt", ".json")
ROWS_AT_ONCE = 1_000
READS_AT_ONCE = 64


@dataclass(frozen=True)
class BucketSource:
    """Every audio file below a prefix, and every member of every tar."""

    root: BucketStore
    on_listed: Callable[[int], None] = lambda objects: None
    """Told, page by page, how many objects were listed so far."""

    def recordings(self) -> Iterator[Recording]:
        with (
            listed_objects(self.root, self.on_listed) as listing,
            ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="sidecars") as pool,
        ):
            for rows in chunks(listing.audio(), READS_AT_ONCE):
                beside = [[] if is_tar_name(row.key) else listing.sidecars(row.key) for row in rows]
                # Many at once: each is a request, and most of a request is waiting.
                contents = pool.map(partial(_read_sidecars, self.root), beside)
                for row, sidecars in zip(rows, contents, strict=True):
                    name = escape_path(row.key)
                    if is_tar_name(name):
                        yield from tar_recordings(ObjectFile(self.root, row.key), uri=name)
                    else:
                        yield object_recording(name, row, sidecars)


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
        sidecars = _read_sidecars(self.root, [side for side in found if side is not None])
        yield object_recording(escape_path(self.name), entry, sidecars)


class Sidecars(NamedTuple):
    """What is next to an audio file, by extension, and what is wrong with it."""

    contents: dict[str, bytes]
    faults: list[str]


def _read_sidecars(store: BucketStore, entries: list[Entry]) -> Sidecars:
    found = Sidecars({}, [])
    for entry in entries:
        extension = entry.key[entry.key.rindex(".") :]
        if entry.size_bytes > MAX_SIDECAR_BYTES:
            found.faults.append(f"{extension}: is larger than {MAX_SIDECAR_BYTES:,} bytes")
        else:
            found.contents[extension] = store.read(entry.key)
    return found


def object_recording(name: str, entry: Entry, sidecars: Sidecars) -> Recording:
    """Describe one audio file and what is next to it."""
    contents = sidecars.contents
    caption, metadata = merge_sidecars(contents.get(".txt"), contents.get(".json"))
    faults = [fault for fault in (metadata.get(SIDECAR_ERROR), *sidecars.faults) if fault]
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
    """List a prefix into a database that is gone afterwards."""
    path = store.temporary("listing")
    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            listing = Listing(database)
            num_objects = 0
            for entries in chunks(store.list(), ROWS_AT_ONCE):
                listing.add(entries)
                num_objects += len(entries)
                on_listed(num_objects)
            yield listing
    finally:
        path.unlink(missing_ok=True)
