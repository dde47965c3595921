"""Audio in an object store: every recording below a prefix, with the captions and metadata next to it.

The order is that of a folder with the same files, whatever the store makes of it.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from solfa.audio.recording import Recording
from solfa.audio.sources.bucket_listing import SIDECARS, listed_objects
from solfa.audio.sources.folder_walk import is_tar_name
from solfa.audio.sources.metadata import MAX_SIDECAR_BYTES, SIDECAR_ERROR, merge_sidecars
from solfa.audio.sources.tar import tar_recordings
from solfa.files.chunks import chunks
from solfa.files.printable_names import escape_path
from solfa.files.stores.bucket_store import BucketStore
from solfa.files.stores.object_file import ObjectFile, version_number
from solfa.files.stores.protocol import Entry

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
