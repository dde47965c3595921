"""Write a whole dataset from existing arrays, for imports and tests."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import chain, islice

from solfa.errors import StoreError
from solfa.files.chunks import chunks
from solfa.files.stores.place import Place, read_place
from solfa.store.completion import finish
from solfa.store.layout import committed_shards, create_info, plan_parts
from solfa.store.lease import Lease
from solfa.store.plain_columns import table_of_rows
from solfa.store.plan_file import (
    PLAN_SCHEMA,
    ShardOfPlan,
    iterate_plan_columns,
    list_shards,
    read_shard_plan,
    write_plan_part,
)
from solfa.store.schema import ArraySpec, DatasetInfo, Manifest
from solfa.store.shard_writer import Outcome, ShardWriter


def append_arrays(
    root: str | Place,
    info: DatasetInfo,
    outcomes: Iterable[Outcome],
    made_by: Mapping[str, str],
    clips_per_shard: int = 4096,
    on_clip: Callable[[int, int], None] = lambda done, total: None,
) -> Manifest:
    """Append clips whose arrays already exist, one shard at a time; if killed half-way, repeat the call to finish.

    Clips whose id the dataset already has are skipped, so repeating a finished call changes nothing. `outcomes` is
    iterated several times, so pass something that gives the same items each time (a list, or an object whose `__iter__`
    starts over); reading arrays lazily keeps memory at one shard.

    >>> import numpy as np
    >>> from solfa.store import ArraySpec, DatasetInfo, Outcome, PlannedClip, append_arrays, open_dataset
    >>> form = {"kind": "codes", "width": 4, "codebook_size": 2048, "dtype": "uint16"}
    >>> spec = ArraySpec(**form, sample_rate=32_000, num_channels=1, hop_length=640)
    >>> info = DatasetInfo.of("encodec_32khz", spec, {"from": "a script of mine"})
    >>> codes = np.zeros((50, 4), np.uint16)  # [T, K]
    >>> clip = PlannedClip(id="a", key="a", uri="a.wav", num_samples=32_000, caption="a bell")
    >>> manifest = append_arrays("mine.solfa", info, [Outcome(clip, codes, 32_000)], {"script": "1.0"})
    >>> open_dataset("mine.solfa")[0]
    Clip('a', uint16 [50, 4], 1.00 s)
    """
    root = read_place(root)
    counted = create_info(root, info)
    if counted.fingerprint != info.fingerprint:
        raise StoreError(
            f"{root}: already holds a dataset with other settings (fingerprint {counted.fingerprint[:16]}…)"
        )
    _write_missing_shards(root, info.array, outcomes, made_by, on_clip)
    while not _plan_new_clips(root, outcomes, clips_per_shard):
        _write_missing_shards(root, info.array, outcomes, made_by, on_clip)
    _write_missing_shards(root, info.array, outcomes, made_by, on_clip)
    manifest = finish(root)
    if manifest is None:
        raise StoreError(f"{root}: another process has planned more clips in the meantime; finish that run first")
    return manifest


def _plan_new_clips(root: Place, outcomes: Iterable[Outcome], clips_per_shard: int) -> bool:
    """Plan the clips that no part has yet; return False if another process took the part's number first."""
    # Choose the part's number before looking at what is planned: whoever publishes in between takes that name.
    part = len(plan_parts(root))
    known = {clip_id for columns in iterate_plan_columns(root, ["id"]) for clip_id in columns["id"]}
    new = (outcome.clip.as_row() for outcome in outcomes if outcome.clip.id not in known)
    first = list(islice(new, 1))
    if not first and part:
        return True
    tables = (table_of_rows(rows, PLAN_SCHEMA) for rows in chunks(chain(first, new), clips_per_shard))
    return write_plan_part(root, part, tables)


def _write_missing_shards(
    root: Place,
    spec: ArraySpec,
    outcomes: Iterable[Outcome],
    made_by: Mapping[str, str],
    on_clip: Callable[[int, int], None],
) -> None:
    """Write the planned shards that are not committed; outcomes come in the order they were planned."""
    done = set(committed_shards(root))
    missing = [shard for shard in list_shards(root) if shard.shard not in done]
    if not missing:
        return
    written, total = 0, sum(shard.num_clips for shard in missing)
    stream = iter(outcomes)
    for shard in missing:
        # The lease only keeps `solfa gc` away; anyone else would write the same shard.
        lease = Lease.take(root, shard.shard) or nullcontext()
        with lease, ShardWriter(root, shard.shard, spec, made_by) as writer:
            for outcome in _outcomes_of(root, shard, stream):
                writer.add(outcome)
                written += 1
                on_clip(written, total)
            writer.commit()


def _outcomes_of(root: Place, shard: ShardOfPlan, stream: Iterator[Outcome]) -> Iterator[Outcome]:
    for planned in read_shard_plan(root, shard):
        found = next((outcome for outcome in stream if outcome.clip.id == planned.id), None)
        if found is None:
            raise StoreError(
                f"{root}: shard {shard.shard} of an earlier, unfinished run has {planned.id!r}, which is not among "
                "these clips; finish that run first"
            )
        yield found
