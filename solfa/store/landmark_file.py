"""The content fingerprints of a shard: what its clips sound like, as landmarks, in a file beside data and meta.

    landmarks/00017-v1.arrow    id, landmarks (list of uint32), checksum (CRC-32 of their bytes); one row per clip

No commit names the file and no digest covers it: a dataset is the same with and without. It is written before the
commit of its shard, or later for a dataset that has none, and created once: what it holds follows from the audio.
"""

import zlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from solfa.errors import StoreError
from solfa.files.crash_points import crash_point
from solfa.files.stores.place import Place, store_at
from solfa.ops.landmark_version import LANDMARKS_VERSION
from solfa.store.column_numbers import numbers_of
from solfa.store.file_cache import FileCache
from solfa.store.layout import numbered
from solfa.store.local_copy import readable
from solfa.store.plain_columns import column, list_column

FOLDER = "landmarks"
_SUFFIX = f"-v{LANDMARKS_VERSION}.arrow"

_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("landmarks", pa.list_(pa.field("item", pa.uint32(), nullable=False)), nullable=False),
        pa.field("checksum", pa.uint32(), nullable=False),
    ]
)

Numbers = np.ndarray[Any, np.dtype[np.uint32]]


class ClipLandmarks(NamedTuple):
    """The packed landmarks of one clip."""

    id: str
    numbers: Numbers


class StoredLandmarks(NamedTuple):
    """The packed landmarks of many clips, one after another."""

    numbers: Numbers
    starts: np.ndarray[Any, np.dtype[np.int64]]
    """Where those of each clip begin, and where the last ones end."""
    is_known: np.ndarray[Any, np.dtype[np.bool_]]
    """False for a clip that was stored without; silence has none and is known."""

    def of(self, index: int) -> Numbers:
        """Return those of one clip."""
        return self.numbers[self.starts[index] : self.starts[index + 1]]

    @classmethod
    def join(cls, parts: Iterable["StoredLandmarks"]) -> "StoredLandmarks":
        """Lay the clips of several parts end to end."""
        found = list(parts)
        lengths = [np.diff(part.starts) for part in found]
        starts = np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths]))
        numbers = np.concatenate([np.zeros(0, np.uint32), *(part.numbers for part in found)])
        return cls(numbers, starts, np.concatenate([np.zeros(0, np.bool_), *(part.is_known for part in found)]))

    def select(self, rows: np.ndarray[Any, np.dtype[np.int64]]) -> "StoredLandmarks":
        """Keep some clips, in the order given."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return StoredLandmarks(self.numbers[places], starts, self.is_known[rows])


def landmark_key(shard: int) -> str:
    """Return the key of the landmarks of a shard."""
    return f"{FOLDER}/{shard:05d}{_SUFFIX}"


def shards_with_landmarks(root: Place) -> list[int]:
    """List the shards whose landmarks are stored."""
    return numbered(root, FOLDER, _SUFFIX, 5)


def create_landmarks(root: Place, shard: int, clips: Sequence[ClipLandmarks]) -> bool:
    """Store the landmarks of a shard; return False if another process was first."""
    store = store_at(root)
    temporary = store.temporary(f"{FOLDER}-{shard:05d}")
    try:
        _write(temporary, clips)
        crash_point("landmarks:before")
        created = store.create(landmark_key(shard), temporary)
        crash_point("landmarks:after")
        return created
    finally:
        temporary.unlink(missing_ok=True)


def _write(path: Path, clips: Sequence[ClipLandmarks]) -> None:
    flat = np.concatenate([np.zeros(0, np.uint32), *(clip.numbers for clip in clips)])
    offsets = np.cumsum([0, *(len(clip.numbers) for clip in clips)]).astype(np.int32)
    landmarks = list_column(offsets, flat, _SCHEMA.field("landmarks").type)
    checksums = column([_checksum(clip.numbers) for clip in clips], pa.uint32())
    batch = pa.record_batch([column([clip.id for clip in clips], pa.string()), landmarks, checksums], schema=_SCHEMA)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        writer.write_batch(batch)


def _checksum(numbers: Numbers) -> int:
    return zlib.crc32(np.ascontiguousarray(numbers, "<u4").data)


class LandmarkFile:
    """The landmarks of one shard as they are stored."""

    def __init__(self, root: Place, shard: int, cache: FileCache | None = None) -> None:
        self._root, self._shard, self._cache = root, shard, cache
        self._where = f"{root}/{landmark_key(shard)}"

    @cached_property
    def _table(self) -> pa.Table | None:
        try:
            source = readable(self._root, landmark_key(self._shard), self._cache)
            content = source.read_bytes() if isinstance(source, Path) else source.getvalue()
            table = pa.ipc.open_file(pa.BufferReader(content)).read_all().combine_chunks()
            table.validate(full=True)
        except FileNotFoundError:
            return None
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(str(error)) from None
        if not table.schema.equals(_SCHEMA):
            raise self._damaged("its columns are not those of landmarks")
        return table

    def _damaged(self, how: str) -> StoreError:
        return StoreError(
            f"{self._where}: cannot be read ({how}); remove the file, and `solfa fingerprint` makes it again"
        )

    def clips(self) -> list[ClipLandmarks] | None:
        """Read every clip and compare it with its checksum; None if nothing is stored."""
        if self._table is None:
            return None
        ids, checksums = (self._table.column(name).to_pylist() for name in ("id", "checksum"))
        lists = self._table.column("landmarks").combine_chunks()
        lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
        values, offsets = numbers_of(lists.values), numbers_of(lists.offsets)
        found = [ClipLandmarks(name, values[offsets[row] : offsets[row + 1]]) for row, name in enumerate(ids)]
        wrong = [
            clip.id for clip, checksum in zip(found, checksums, strict=True) if _checksum(clip.numbers) != checksum
        ]
        if wrong:
            raise self._damaged(f"those of clip {wrong[0]!r} do not match their checksum")
        return found

    def of(self, ids: Sequence[str]) -> StoredLandmarks:
        """Read the landmarks of some clips, in the order given."""
        stored = {clip.id: clip.numbers for clip in self.clips() or ()}
        nothing = np.zeros(0, np.uint32)
        numbers = [stored.get(clip_id, nothing) for clip_id in ids]
        starts = np.cumsum([0, *map(len, numbers)]).astype(np.int64)
        known = np.array([clip_id in stored for clip_id in ids], np.bool_)
        return StoredLandmarks(np.concatenate([nothing, *numbers]), starts, known)
