"""Write one shard: arrays as they come, then the meta rows, then the commit that makes the shard exist.

.tmp/data…    record batches of arrays, one row per clip     ─┐ fsync, named after their content
.tmp/meta…    where each array is, and what the clip is      ─┘
.tmp/commit…  names both files; gets its own name last, and only once

In a folder, the commit is in .tmp before the first file is published. Garbage collection empties .tmp before it
removes anything else, so a writer that only seemed dead cannot commit files that are gone. For an object store, all
three are written on this machine first, and garbage collection leaves the files of a shard alone until the shard is
committed.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from solfa.errors import StoreError
from solfa.files.crash_points import crash_point
from solfa.files.digest import file_sha256
from solfa.files.stores.bucket_store import BucketStore
from solfa.files.stores.place import Place, store_at
from solfa.store.column_numbers import numbers_of
from solfa.store.landmark_file import ClipLandmarks, create_landmarks
from solfa.store.layout import commit_key, content_name, file_record, read_commit
from solfa.store.plain_columns import column, list_column, number_column, table_of_rows
from solfa.store.planned_clip import PlannedClip, metadata_text
from solfa.store.requests import Requests
from solfa.store.schema import (
    BYTES_PER_BATCH,
    META_SCHEMA,
    ROWS_PER_BATCH,
    ArraySpec,
    Commit,
    FileRecord,
    data_schema,
    record_bytes,
)

MAX_ELEMENTS = 2**31 - 1
"""An Arrow list counts its elements with 32 bits."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one planned clip: an array, or the reason why there is none.

    >>> from solfa.store import Outcome, PlannedClip
    >>> clip = PlannedClip(id="a", key="a", uri="a.wav")
    >>> Outcome(clip, error="not audio").array is None
    True
    """

    clip: PlannedClip
    array: np.ndarray[Any, Any] | None = None
    """[T, W]; None for a failed clip."""
    num_samples: int = 0
    scales: np.ndarray[Any, Any] | None = None
    error: str | None = None
    landmarks: np.ndarray[Any, Any] | None = None
    """The packed landmarks of its audio; None if they are not wanted."""


class ShardWriter:
    """Collects the outcomes of one shard, in plan order, and commits them."""

    def __init__(self, root: Place, shard: int, spec: ArraySpec, made_by: Mapping[str, str]) -> None:
        self._root, self._shard, self._spec, self._made_by = root, shard, spec, dict(made_by)
        self._store = store_at(root)
        self._schema = data_schema(spec)
        self._data = self._store.temporary(f"data-{shard:05d}")
        self._meta = self._store.temporary(f"meta-{shard:05d}")
        self._commit = self._store.temporary(f"commit-{shard:05d}")
        self._sink = pa.OSFile(str(self._data), "wb")
        self._writer = pa.ipc.new_file(self._sink, self._schema)
        self._pending: list[tuple[str, np.ndarray[Any, Any]]] = []
        self._pending_bytes = 0
        self._rows: list[dict[str, Any]] = []
        self._landmarks: list[ClipLandmarks] = []

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sink.close()
        for temporary in (self._data, self._meta, self._commit):
            temporary.unlink(missing_ok=True)

    def add(self, outcome: Outcome) -> None:
        """Add the next clip; its array is converted to the dataset's dtype, refusing values that do not fit."""
        if outcome.array is None:
            self._rows.append(_meta_row(outcome, self._spec, num_frames=0, checksum=None))
            return
        if outcome.landmarks is not None:
            self._landmarks.append(ClipLandmarks(outcome.clip.id, outcome.landmarks))
        array = _as_stored(outcome.array, self._spec, outcome.clip.id)
        self._rows.append(_meta_row(outcome, self._spec, num_frames=len(array), checksum=zlib.crc32(array.data)))
        if self._pending_bytes + array.nbytes > MAX_ELEMENTS * array.itemsize:
            self._flush()
        self._pending.append((outcome.clip.id, array))
        self._pending_bytes += array.nbytes
        if len(self._pending) >= ROWS_PER_BATCH or self._pending_bytes >= BYTES_PER_BATCH:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        ids = [clip_id for clip_id, _ in self._pending]
        lengths = np.array([array.size for _, array in self._pending], np.int64)
        flat = np.concatenate([array.reshape(-1) for _, array in self._pending])
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        arrays = list_column(offsets, flat, self._schema.field("array").type)
        columns = [column(ids, pa.string()), arrays, number_column(lengths // self._spec.width)]
        self._writer.write_batch(pa.record_batch(columns, schema=self._schema))
        self._pending, self._pending_bytes = [], 0
        crash_point("shard:after-batch")

    def commit(self) -> Commit:
        """Publish the files and create the commit; if another process was first, its commit counts."""
        self._flush()
        self._writer.close()
        self._sink.close()
        self._locate_arrays()
        table = table_of_rows(self._rows, META_SCHEMA)
        pq.write_table(table, self._meta, compression="zstd", row_group_size=1 << 16)
        commit = self._describe(self._record(self._data, ".arrow"), self._record(self._meta, ".parquet"))
        self._commit.write_bytes(record_bytes(commit))
        try:
            is_ours = self._publish(commit)
        except FileNotFoundError as error:
            raise StoreError(
                f"{self._root}: the unfinished files of shard {self._shard} are gone ({error.filename}), because "
                "`solfa gc` took this process for dead; run the same command again"
            ) from None
        return commit if is_ours else read_commit(self._root, self._shard)

    def _publish(self, commit: Commit) -> bool:
        """Create the files and then the commit; return False if there was a commit."""
        crash_point("shard:before-data")
        with Requests(self._root) as requests:  # to an object store, all are on their way at once
            data = requests.begin(self._create, f"data/{commit.data.name}", self._data)
            meta = requests.begin(self._create, f"meta/{commit.meta.name}", self._meta)
            heard = requests.begin(self._create_landmarks)
            data()
            crash_point("shard:before-meta")
            meta()
            heard()
        crash_point("shard:before-commit")
        is_ours = self._store.create(commit_key(self._shard), self._commit)
        crash_point("shard:after-commit")
        return is_ours

    def _create(self, key: str, file: Path) -> None:
        """Create a file that is named after its content; an object store compares it if it is there already."""
        if not self._store.create(key, file) and isinstance(self._store, BucketStore):
            raise StoreError(f"{self._root}/{key}: an object with other content has this name; run `solfa verify`")

    def _create_landmarks(self) -> None:
        if self._landmarks:
            create_landmarks(self._root, self._shard, self._landmarks)

    def _record(self, temporary: Path, suffix: str) -> FileRecord:
        sha256 = file_sha256(temporary)
        return file_record(temporary, sha256, content_name(self._shard, sha256, suffix))

    def _describe(self, data: FileRecord, meta: FileRecord) -> Commit:
        stored = [row for row in self._rows if row["status"] == "ok"]
        return Commit(
            shard=self._shard,
            data=data,
            meta=meta,
            num_clips=len(stored),
            num_failed=len(self._rows) - len(stored),
            num_frames=sum(row["num_frames"] for row in stored),
            num_samples=sum(row["num_samples"] for row in stored),
            made_by=self._made_by,
        )

    def _locate_arrays(self) -> None:
        """Fill in where each array is in the data file, as byte ranges that can be read without Arrow."""
        stored = iter(row for row in self._rows if row["status"] == "ok")
        for offset, length in array_ranges(self._data, self._spec):
            row = next(stored)
            row["byte_offset"], row["byte_length"] = offset, length


def array_ranges(path: Path, spec: ArraySpec) -> list[tuple[int, int]]:
    """List the byte offset and length of every array in a data file, as Arrow lays them out."""
    itemsize = spec.numpy_dtype.itemsize
    ranges: list[tuple[int, int]] = []
    with pa.memory_map(str(path)) as source:
        if source.size() == 0:
            return ranges
        base = source.read_buffer(source.size()).address
        reader = pa.ipc.open_file(source)
        for index in range(reader.num_record_batches):
            column = reader.get_batch(index).column("array")
            # For a batch without frames, Arrow's buffer does not point into the file.
            begin = column.values.buffers()[1].address - base if len(column.values) else 0
            bounds = numbers_of(column.offsets).astype(np.int64) * itemsize + begin
            ranges += zip(bounds[:-1].tolist(), np.diff(bounds).tolist(), strict=True)
    return ranges


def _as_stored(array: np.ndarray[Any, Any], spec: ArraySpec, clip_id: str) -> np.ndarray[Any, Any]:
    if array.ndim != 2 or array.shape[1] != spec.width:
        raise StoreError(f"{clip_id}: expected an array [T, {spec.width}], found {list(array.shape)}")
    if array.size > MAX_ELEMENTS:
        raise StoreError(f"{clip_id}: {array.size} values are too many for one clip; use a smaller `segment_seconds`")
    if spec.codebook_size is not None:
        low, high = (array.min(), array.max()) if array.size else (0, 0)
        if array.dtype.kind not in "ui" or low < 0 or high >= spec.codebook_size:
            raise StoreError(
                f"{clip_id}: expected integer codes from 0 to {spec.codebook_size - 1}, "
                f"found {array.dtype} from {low} to {high}"
            )
        return np.ascontiguousarray(array, spec.numpy_dtype)
    with np.errstate(over="ignore"):
        stored = np.ascontiguousarray(array, spec.numpy_dtype)
    if not np.isfinite(stored).all():
        if not np.isfinite(array).all():
            raise StoreError(f"{clip_id}: expected finite latents, found NaN or infinity; the codec cannot encode it")
        raise StoreError(f"{clip_id}: latents do not fit {spec.dtype}; encode with dtype float32")
    return stored


def _meta_row(outcome: Outcome, spec: ArraySpec, num_frames: int, checksum: int | None) -> dict[str, Any]:
    clip = outcome.clip
    return {
        "id": clip.id,
        "status": "ok" if outcome.array is not None else "failed",
        "error": outcome.error,
        "num_frames": num_frames,
        "num_samples": outcome.num_samples,
        "seconds": outcome.num_samples / spec.sample_rate,
        "byte_offset": None,
        "byte_length": None,
        "checksum": checksum,
        "scales": None if outcome.scales is None else outcome.scales.tolist(),
        "caption": clip.caption,
        "metadata": metadata_text(clip.metadata),
        "key": clip.key,
        "uri": clip.uri,
        "member": clip.member,
        "start": clip.start,
        "stop": clip.stop,
        "source_sample_rate": clip.source_sample_rate,
        "source_num_channels": clip.source_num_channels,
        "source_num_samples": clip.source_num_samples,
        "source_format": clip.source_format,
    }
