"""The frozen list of items, `OUT/items.parquet`: written once, in its final order, before anything is encoded.

Every rank and every later run reads the same list, so ids never shift, whatever happens to the source in the meantime.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from solfa.audio.probe import probe_in_chunks
from solfa.encoding.frozen_plan import expect_named
from solfa.encoding.pre_encode.config_source import Collected, without_functions
from solfa.encoding.pre_encode.item_metadata import ItemMetadata
from solfa.encoding.pre_encode.items import MAX_BATCHES, Cut, items_of, shuffle_key
from solfa.encoding.remembered_probes import forget_probes, probe_and_remember
from solfa.errors import ConfigError, StoreError
from solfa.files.crash_points import crash_point
from solfa.files.whole_files import publish, temporary_path
from solfa.store.column_numbers import numbers_of
from solfa.store.plain_columns import batch_of_rows
from solfa.store.plan_file import PLAN_SCHEMA
from solfa.store.planned_clip import PlannedClip

ROWS_PER_GROUP = 4096


def list_path(out: Path) -> Path:
    """Return the path of the list."""
    return out / "items.parquet"


def freeze_list(
    out: Path,
    metadata: ItemMetadata,
    cut: Cut,
    *,
    shuffle: bool,
    max_items: int | None,
    on_recordings: Callable[[int], None],
) -> None:
    """List all recordings and write the list; if another process was first, its list stays."""
    enough = None if shuffle else max_items
    table = pa.Table.from_batches(_record_batches(out, metadata, cut, enough, on_recordings), PLAN_SCHEMA)
    if shuffle:
        names = table["id"].to_pylist()
        table = table.take(pa.array(sorted(range(len(names)), key=lambda row: shuffle_key(names[row])), pa.int64()))
    table = table.slice(0, max_items)
    temporary = temporary_path(out, "items")
    try:
        pq.write_table(table, temporary, row_group_size=ROWS_PER_GROUP, compression="zstd")
        crash_point("pre-encode:before-list")
        publish(temporary, list_path(out))
    finally:
        temporary.unlink(missing_ok=True)
    forget_probes(out)


def _record_batches(
    out: Path, metadata: ItemMetadata, cut: Cut, enough: int | None, on_recordings: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    num_recordings = num_items = 0
    probe = partial(probe_and_remember, out) if enough is None else probe_in_chunks
    source = without_functions(metadata.collected.source)
    for probed in probe(source.root, source.recordings()):
        rows = []
        for recording, info in probed:
            items = items_of(recording, info, cut)
            rows += [metadata.describe(recording, info, item).as_row() for item in items]
            num_recordings += 1
            on_recordings(num_recordings)
        yield batch_of_rows(rows, PLAN_SCHEMA)
        num_items += len(rows)
        if enough is not None and num_items >= enough:
            return


def read_lengths(out: Path) -> npt.NDArray[np.int64]:
    """Read how many samples each item of the list has; 0 if it cannot be read."""
    with _open(out) as file:
        lengths: npt.NDArray[np.int64] = numbers_of(file.read(columns=["num_samples"])["num_samples"])
        return lengths


def read_items(out: Path) -> Iterator[PlannedClip]:
    """Read the list in order, with one group of rows in memory at a time."""
    with _open(out) as file:
        for group in range(file.num_row_groups):
            try:
                rows = file.read_row_group(group).to_pylist()
            except (pa.ArrowException, OSError) as error:
                raise StoreError(f"{list_path(out)}: cannot be read ({error}); the file is damaged") from None
            for row in rows:
                try:
                    yield PlannedClip.from_row(row)
                except ValueError as error:
                    raise StoreError(f"{list_path(out)}: has a broken row ({error}); the file is damaged") from None


def _open(out: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(list_path(out))
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{list_path(out)}: the list of items cannot be read ({error})") from None


def check_capacity(num_items: int, batch_size: int, world_size: int) -> None:
    """Refuse a list with more batches than ids can number."""
    batches = -(-num_items // batch_size)
    if -(-batches // world_size) > MAX_BATCHES:
        needed = -(-num_items // (MAX_BATCHES * world_size))
        raise ConfigError(
            f"batch_size {batch_size}: {batches:,} batches are too many for 13-digit ids; "
            f"expected a batch_size of at least {needed}, or fewer recordings"
        )


def refuse_strangers(out: Path, collected: Collected) -> None:
    """Refuse a list that somebody else froze if it would have us read files that the source does not name."""
    with _open(out) as file:
        columns = file.read(columns=["key", "uri"]).to_pydict()
    expect_named(out, zip(columns["key"], columns["uri"], strict=True), without_functions(collected.source))


def new_recordings(out: Path, collected: Collected) -> list[str]:
    """List recordings that were added to the source after the list was frozen."""
    with _open(out) as file:
        known = set(file.read(columns=["key"])["key"].to_pylist())
    found = without_functions(collected.source).recordings()
    return [recording.key for recording in found if recording.key not in known]
