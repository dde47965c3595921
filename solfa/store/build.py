"""Write a whole dataset from arrays that already exist: what importing and tests need."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from solfa.errors import StoreError
from solfa.store.finish import finish
from solfa.store.layout import committed_shards, create_info, plan_parts
from solfa.store.plan_file import PLAN_SCHEMA, list_shards, write_plan_part
from solfa.store.schema import DatasetInfo, Manifest
from solfa.store.shard import Outcome, ShardWriter

T = TypeVar("T")


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut an iterable into lists of `size`, the last one shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def append_arrays(
    root: Path,
    info: DatasetInfo,
    outcomes: Iterable[Outcome],
    made_by: Mapping[str, str],
    clips_per_shard: int = 4096,
) -> Manifest:
    """Append clips whose arrays exist already, a shard at a time; killed half-way, repeat the call to finish it.

    The outcomes are gone through twice when shards must be planned first, so pass something that can be iterated again
    (a list, or an object whose `__iter__` starts anew); reading arrays lazily keeps memory at one shard.
    """
    counted = create_info(root, info)
    if counted.fingerprint != info.fingerprint:
        raise StoreError(f"{root}: holds a dataset of other settings (fingerprint {counted.fingerprint[:16]}…)")
    first = len(list_shards(root))
    tables = (
        pa.Table.from_pylist([outcome.clip.as_row() for outcome in chunk], schema=PLAN_SCHEMA)
        for chunk in chunks(outcomes, clips_per_shard)
    )
    done = set(committed_shards(root))
    if first == 0 or set(range(first)) <= done:
        write_plan_part(root, len(plan_parts(root)), tables)
    else:
        # The last part was planned by a call that did not finish: carry on from its first shard.
        last = list_shards(root)[-1].part
        first = next(shard.shard for shard in list_shards(root) if shard.part == last)
    for number, chunk in enumerate(chunks(outcomes, clips_per_shard), start=first):
        if number not in done:
            with ShardWriter(root, number, info.array, made_by) as writer:
                for outcome in chunk:
                    writer.add(outcome)
                writer.commit()
    manifest = finish(root)
    if manifest is None:
        raise StoreError(f"{root}: shards of an earlier, unfinished run are missing; finish that run first")
    return manifest
