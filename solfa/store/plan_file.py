"""The frozen plan on disk: one Parquet file per part, one row group per shard, one row per clip.

A worker reads only the row group of the shard it works on, so its memory does not grow with the plan.
"""

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from solfa.errors import StoreError
from solfa.files.digest import file_sha256
from solfa.files.stores.place import Place, store_at
from solfa.store.layout import plan_key, plan_parts
from solfa.store.local_copy import readable
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import FileRecord, PlanRecord

PLAN_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("uri", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("mtime_ns", pa.int64(), nullable=False),
        pa.field("member", pa.string()),
        pa.field("member_offset", pa.int64(), nullable=False),
        pa.field("member_size", pa.int64(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("stop", pa.int64(), nullable=False),
        pa.field("num_samples", pa.int64(), nullable=False),
        pa.field("source_sample_rate", pa.int32(), nullable=False),
        pa.field("source_num_channels", pa.int32(), nullable=False),
        pa.field("source_num_samples", pa.int64(), nullable=False),
        pa.field("source_format", pa.string(), nullable=False),
        pa.field("caption", pa.string()),
        pa.field("metadata", pa.string(), nullable=False),
        pa.field("error", pa.string()),
    ]
)


ROWS_AT_ONCE = 4_096
"""How many rows of a plan are in memory where it does not matter which shard they are of."""


class ShardOfPlan(NamedTuple):
    """Which row group of which part describes a shard."""

    shard: int
    part: int
    row_group: int
    num_clips: int


def write_plan_part(root: Place, part: int, shards: Iterator[pa.Table]) -> bool:
    """Write one part, a row group per table; return False if another process was first."""
    store = store_at(root)
    temporary = store.temporary("plan")
    try:
        with pq.ParquetWriter(temporary, PLAN_SCHEMA, compression="zstd") as writer:
            for table in shards:
                writer.write_table(table, row_group_size=max(1, table.num_rows))
        return store.create(plan_key(part), temporary)
    finally:
        temporary.unlink(missing_ok=True)


def _open_part(root: Place, part: int, source: Path | io.BytesIO | None = None) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(readable(root, plan_key(part)) if source is None else source)
        if file.schema_arrow.equals(PLAN_SCHEMA):
            return file
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(root, part, error) from None
    file.close()
    raise StoreError(f"{root}/{plan_key(part)}: its columns are not those of a plan; another file took its place")


def _unreadable(root: Place, part: int, error: Exception) -> StoreError:
    return StoreError(f"{root}/{plan_key(part)}: the plan cannot be read ({error}); the file is damaged")


def _read_group(file: pq.ParquetFile, where: str, group: int, columns: list[str] | None = None) -> pa.Table:
    try:
        return file.read_row_group(group, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable_group(where, group, error) from None


def _unreadable_group(where: str, group: int, error: Exception) -> StoreError:
    return StoreError(f"{where}: row group {group} cannot be read ({error}); the file is damaged")


def list_shards(root: Place) -> list[ShardOfPlan]:
    """List all planned shards; numbering continues from part to part."""
    shards: list[ShardOfPlan] = []
    for part in _whole_parts(root):
        with _open_part(root, part) as file:
            shards += _shards_of(root, part, file, len(shards))
    return shards


def read_plan(root: Place) -> tuple[list[ShardOfPlan], list[PlanRecord]]:
    """List all planned shards, and describe the parts that they are in."""
    shards: list[ShardOfPlan] = []
    records = []
    for part in _whole_parts(root):
        with _described_part(root, part) as (file, record):
            shards += _shards_of(root, part, file, len(shards))
            records.append(record)
    return shards, records


def _whole_parts(root: Place) -> list[int]:
    parts = plan_parts(root)
    if parts != list(range(len(parts))):
        raise StoreError(f"{root}/plan: expected parts 0 to {len(parts) - 1}, found {parts}; a file is missing")
    return parts


def _shards_of(root: Place, part: int, file: pq.ParquetFile, first: int) -> list[ShardOfPlan]:
    counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    if 0 in counts:  # nobody could ever commit such a shard
        raise StoreError(f"{root}/{plan_key(part)}: row group {counts.index(0)} has no rows; the file is damaged")
    return [ShardOfPlan(first + group, part, group, count) for group, count in enumerate(counts)]


def read_shard_plan(root: Place, shard: ShardOfPlan) -> list[PlannedClip]:
    """Read the clips of one shard, in the order they are encoded and stored."""
    with _open_part(root, shard.part) as file:
        where = f"{root}/{plan_key(shard.part)}"
        rows = _read_group(file, where, shard.row_group)
        try:
            return [PlannedClip.from_row(row) for row in rows.to_pylist()]
        except ValueError as error:
            raise StoreError(
                f"{where}: row group {shard.row_group} has a broken row ({error}); the file is damaged"
            ) from None


def iterate_plan_columns(root: Place, columns: list[str]) -> Iterator[dict[str, list[Any]]]:
    """Iterate over some columns of the whole plan, one shard at a time."""
    return (table.to_pydict() for table in iterate_plan_tables(root, columns))


def iterate_plan_tables(root: Place, columns: list[str]) -> Iterator[pa.Table]:
    """Iterate over some columns of the whole plan as Arrow tables, one shard at a time."""
    for part in plan_parts(root):
        with _open_part(root, part) as file:
            for group in range(file.num_row_groups):
                yield _read_group(file, f"{root}/{plan_key(part)}", group, columns)


def iterate_plan_batches(root: Place, columns: list[str]) -> Iterator[pa.Table]:
    """Iterate over some columns of the whole plan, some rows at a time: shards may be large."""
    for part in plan_parts(root):
        with _open_part(root, part) as file:
            for group in range(file.num_row_groups):
                try:
                    for batch in file.iter_batches(
                        ROWS_AT_ONCE, row_groups=[group], columns=columns, use_threads=False
                    ):
                        yield pa.Table.from_batches([batch])
                except (pa.ArrowException, OSError) as error:
                    raise _unreadable_group(f"{root}/{plan_key(part)}", group, error) from None
    # Of large shards, Arrow would keep about 10 MB for the next time, which may never come.
    pa.default_memory_pool().release_unused()


def plan_record(root: Place, part: int) -> PlanRecord:
    """Make the record of one part for a manifest."""
    with _described_part(root, part) as (_, record):
        return record


@contextmanager
def _described_part(root: Place, part: int) -> Iterator[tuple[pq.ParquetFile, PlanRecord]]:
    try:
        source = readable(root, plan_key(part))
    except OSError as error:
        raise _unreadable(root, part, error) from None
    if isinstance(source, Path):  # piece by piece: it grows with the number of clips
        size_bytes, sha256 = source.stat().st_size, file_sha256(source)
    else:
        size_bytes, sha256 = len(source.getbuffer()), hashlib.sha256(source.getbuffer()).hexdigest()
    name = PurePosixPath(plan_key(part)).name
    with _open_part(root, part, source) as file:
        record = FileRecord(name=name, size_bytes=size_bytes, sha256=sha256)
        yield file, PlanRecord(file=record, num_clips=file.metadata.num_rows, num_shards=file.num_row_groups)
