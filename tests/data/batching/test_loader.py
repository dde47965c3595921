import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from solfa.data.batching.collation import Batch
from solfa.data.batching.loader import BatchDataset, GlobalBatchSampler, Loader, make_loader
from solfa.data.batching.modes import Crop, Pack, Pad
from solfa.data.sources.clip_source import MemoryClip, MemoryClips
from solfa.errors import ConfigError, StoreError
from solfa.store.array_dataset import append_arrays
from solfa.store.dataset import Dataset, open_dataset
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec, DatasetInfo
from solfa.store.shard_writer import Outcome
from tests.data.segments import segments_of

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker processes")

Modes = Crop | Pad | Pack
MODES: list[Modes] = [
    Crop(num_frames=12, batch_size=5),
    Pad(batch_size=4, window_batches=3),
    Pad(max_frames_per_batch=120),
    Pack(num_frames=30, batch_size=4),
]
WITH_WORKERS = [(1, 3), (2, 1), (3, 2), (1, 2)]
"""Ranks, and worker processes of each, one pair for every mode: workers are told which rows to read, and no mode."""


class GlobalBatch(NamedTuple):
    """What all ranks saw in one step, put together."""

    position: tuple[int, int]
    arrays: list[Any]
    segment_ids: list[Any]
    segments: list[tuple[Any, ...]]


def join(shares: tuple[Batch, ...]) -> GlobalBatch:
    assert len({(share.epoch, share.step, share.global_rows, share.global_frames) for share in shares}) == 1
    assert all(len(share) for share in shares), "nobody is asked about no rows at all"
    assert {len(share) for share in shares if share.is_padding} <= {1}
    shares = tuple(share for share in shares if not share.is_padding)
    arrays = torch.cat([share.arrays for share in shares])
    assert len(arrays) == shares[0].global_rows
    assert sum(int(share.mask.sum()) for share in shares) == shares[0].global_frames
    segments, first_row = [], 0
    for share in shares:
        places = (share.rows + first_row, share.columns, share.num_frames, share.starts)
        names = (share.ids, share.captions, share.metadata)
        segments += list(zip(*(place.tolist() for place in places), *names, strict=True))
        first_row += len(share)
    segment_ids = torch.cat([share.segment_ids for share in shares])
    return GlobalBatch((shares[0].epoch, shares[0].step), arrays.tolist(), segment_ids.tolist(), segments)


def loaders(clips: MemoryClips, mode: Modes, world_size: int, num_workers: int) -> list[Loader]:
    return [
        make_loader(clips, mode, seed=7, rank=rank, world_size=world_size, num_workers=num_workers, pad_ranks=True)
        for rank in range(world_size)
    ]


def epoch_of(ranks: list[Loader]) -> Iterator[GlobalBatch]:
    return map(join, zip(*ranks, strict=True))  # strict: every rank makes the same number of steps


def reference(clips: MemoryClips, mode: Modes, num_epochs: int) -> list[list[GlobalBatch]]:
    ranks = loaders(clips, mode, 1, 0)
    return [list(epoch_of(ranks)) for _ in range(num_epochs)]


def assert_same(found: list[GlobalBatch], expected: list[GlobalBatch]) -> None:
    """Compare batch by batch: pytest would take minutes to print the difference of two long lists of numbers."""
    assert [batch.position for batch in found] == [batch.position for batch in expected]
    for left, right in zip(found, expected, strict=True):
        assert left.segments == right.segments
        same = left == right
        assert same, f"the arrays differ in step {left.position}"


@pytest.mark.parametrize(("mode", "with_workers"), [*zip(MODES, WITH_WORKERS, strict=True)], ids=str)
def test_global_batches_are_the_same_for_every_world_size_and_number_of_workers(
    clips: MemoryClips, mode: Modes, with_workers: tuple[int, int]
) -> None:
    expected = reference(clips, mode, 1)[0]
    assert len(expected) >= 4
    for world_size, num_workers in ((2, 0), (3, 0), with_workers):
        assert_same(list(epoch_of(loaders(clips, mode, world_size, num_workers))), expected)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_resume_at_any_step_with_other_ranks_continues_with_the_same_global_batches(
    clips: MemoryClips, mode: Modes
) -> None:
    epochs = reference(clips, mode, 3)
    first, both = len(epochs[0]), len(epochs[0]) + len(epochs[1])
    # Every step of one mode; of the others, the steps around the beginning and the end of an epoch, and one within.
    for stop in range(both) if mode == MODES[0] else (0, 1, first // 2, first - 1, first, first + 1, both - 1):
        before = loaders(clips, mode, 1 + stop % 3, 0)
        _deliver(before, stop)
        states = [loader.state_dict() for loader in before]
        assert all(state == states[0] for state in states)
        after = loaders(clips, mode, 1 + (stop + 1) % 3, 0)
        for loader in after:
            loader.load_state_dict(json.loads(json.dumps(states[0])))
        rest = list(epoch_of(after)) + list(epoch_of(after))
        assert_same(rest[: len(epochs[1])], (epochs[0] + epochs[1] + epochs[2])[stop:][: len(epochs[1])])


@pytest.mark.parametrize(
    ("before", "after", "places"), [((2, 2), (1, 0), (0,)), ((1, 1), (3, 1), (1, 3)), ((3, 0), (2, 3), (2,))]
)
def test_a_resume_with_other_workers_counts_what_was_delivered_and_not_what_was_prefetched(
    clips: MemoryClips, before: tuple[int, int], after: tuple[int, int], places: tuple[int, ...]
) -> None:
    for place in places:
        mode, stop = MODES[place], (1, 2, 3, 5)[place]
        expected = reference(clips, mode, 1)[0]
        stopped = loaders(clips, mode, *before)
        _deliver(stopped, stop)
        state = stopped[0].state_dict()
        assert (state["epoch"], state["step"]) == (0, stop)
        resumed = loaders(clips, mode, *after)
        for loader in resumed:
            loader.load_state_dict(state)
        assert len(resumed[0]) == len(expected) - stop
        assert_same(list(epoch_of(resumed)), expected[stop:])


def _deliver(ranks: list[Loader], count: int) -> None:
    """Take `count` batches, through epochs, and drop the iterator in the middle."""
    while count:
        for _ in epoch_of(ranks):
            count -= 1
            if not count:
                break


def test_a_state_saved_with_the_last_batch_of_an_epoch_goes_on_with_the_next(clips: MemoryClips) -> None:
    loader = make_loader(clips, MODES[0])
    for _ in loader:
        state = loader.state_dict()
    assert (state["epoch"], state["step"]) == (1, 0)
    assert (loader.epoch, loader.step) == (1, 0)
    resumed = make_loader(clips, MODES[0])
    resumed.load_state_dict(state)
    assert [batch.epoch for batch in resumed] == [1] * loader.num_steps


def test_leaving_an_epoch_and_iterating_again_goes_on_where_it_was_left(clips: MemoryClips) -> None:
    loader = make_loader(clips, MODES[0])
    whole = [batch.ids for batch in make_loader(clips, MODES[0])]
    pieces = []
    for batch in loader:
        pieces.append(batch.ids)
        if len(pieces) == 2:
            break
    assert len(loader) == len(whole) - 2
    assert pieces + [batch.ids for batch in loader] == whole


def test_persistent_workers_give_the_same_epochs_even_after_a_break(clips: MemoryClips) -> None:
    plain = make_loader(clips, MODES[0])
    expected = [batch.ids for batch in plain] + [batch.ids for batch in plain]
    loader = make_loader(clips, MODES[0], num_workers=2, persistent_workers=True)
    found = [next(iter(loader)).ids]
    found += [batch.ids for batch in loader]
    found += [batch.ids for batch in loader]
    assert found == expected


@pytest.mark.slow
def test_spawned_workers_reopen_a_stored_dataset_and_read_the_same_batches(clips: MemoryClips, tmp_path: Path) -> None:
    dataset = _store(clips, tmp_path / "clips.solfa")
    for num_workers, context in ((0, None), (1, "spawn"), (2, "fork")):
        loader = make_loader(dataset, MODES[3], num_workers=num_workers, multiprocessing_context=context)
        pieces: dict[str, dict[int, torch.Tensor]] = {}
        for batch in loader:
            for segment, caption, metadata in zip(segments_of(batch), batch.captions, batch.metadata, strict=True):
                pieces.setdefault(segment.id, {})[segment.start] = segment.array
                clip = clips[metadata["index"]]
                assert (segment.id, caption) == (clip.id, clip.caption)
        assert len(pieces) == len(clips)
        for clip in map(clips.__getitem__, range(len(clips))):
            whole = torch.cat([array for _, array in sorted(pieces[clip.id].items())])
            assert torch.equal(whole, torch.from_numpy(clip.array.astype(np.int64)))


def test_a_state_is_refused_for_another_selection_of_a_stored_dataset(clips: MemoryClips, tmp_path: Path) -> None:
    dataset = _store(clips, tmp_path / "clips.solfa")
    state = make_loader(dataset, MODES[0]).state_dict()
    make_loader(open_dataset(tmp_path / "clips.solfa"), MODES[0]).load_state_dict(state)
    with pytest.raises(StoreError, match=r"loader state: .*manifest"):
        make_loader(dataset[1:], MODES[0]).load_state_dict(state)


def _store(clips: MemoryClips, root: Path) -> Dataset:
    spec = ArraySpec(
        kind="codes", width=3, codebook_size=2**16, sample_rate=100, num_channels=1, hop_length=1, dtype="uint16"
    )
    outcomes = []
    for clip in map(clips.__getitem__, range(len(clips))):
        planned = PlannedClip(clip.id, clip.id, clip.id, caption=clip.caption, metadata=clip.metadata)
        outcomes.append(Outcome(planned, clip.array, num_samples=len(clip.array)))
    append_arrays(root, DatasetInfo.of("none", spec, {}), outcomes, {}, clips_per_shard=10)
    return open_dataset(root)


def test_iterating_leaves_the_global_random_state_alone(clips: MemoryClips) -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    for num_workers in (0, 1):
        list(make_loader(clips, MODES[0], num_workers=num_workers))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_loader_that_delivered_nothing_has_not_moved(clips: MemoryClips) -> None:
    sampler = GlobalBatchSampler(clips, MODES[0])
    assert len(list(sampler)) == len(list(sampler)) == len(sampler) == 6
    loader = make_loader(clips, MODES[0], num_workers=1)
    before = loader.state_dict()
    iter(loader)
    assert loader.state_dict() == before and loader.step == 0


def test_the_parts_work_in_a_plain_dataloader(clips: MemoryClips) -> None:
    sampler = GlobalBatchSampler(clips, MODES[1], seed=7)
    ids = []
    for batch in DataLoader(BatchDataset(clips), sampler=sampler, batch_size=None, num_workers=2):
        ids.append(batch.ids)
        sampler.advance_past(batch)
        if len(ids) == 3:
            break
    assert (sampler.state_dict()["epoch"], sampler.state_dict()["step"]) == (0, 3)
    ids += [batch.ids for batch in DataLoader(BatchDataset(clips), sampler=sampler, batch_size=None)]
    assert ids == [batch.ids for batch in make_loader(clips, MODES[1], seed=7)]


def test_a_state_of_other_clips_is_refused(clips: MemoryClips) -> None:
    other = MemoryClips([clips[index] for index in range(len(clips) - 1)])
    state = make_loader(other, MODES[0]).state_dict()
    loader = make_loader(clips, MODES[0])
    with pytest.raises(StoreError, match=f"loader state: .*{other.digest[:16]}.*{clips.digest[:16]}"):
        loader.load_state_dict(state)
    assert loader.state_dict() == make_loader(clips, MODES[0]).state_dict()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 1}, r"loader state: .*seed 1\b.* 0\b"),
        ({"mode": {"kind": "crop", "num_frames": 13, "batch_size": 5}}, "loader state: .*mode .*num_frames=13"),
        ({"step": 1000}, "loader state: .*step 1000 .*epoch 0.* 6 steps"),
        ({"step": -1}, "step"),
        ({"position": 3}, "position: unknown field"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(clips: MemoryClips, change: dict[str, Any], words: str) -> None:
    loader = make_loader(clips, MODES[0])
    with pytest.raises(ConfigError, match=words):
        loader.load_state_dict(loader.state_dict() | change)
    assert loader.step == 0


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"rank": 2, "world_size": 2}, "found rank 2 and world_size 2"),
        ({"rank": -1}, "found rank -1"),
        ({"rank": 0, "world_size": 6}, "5 rows .*6 ranks.*batch_size"),
    ],
)
def test_ranks_that_do_not_fit_are_refused(clips: MemoryClips, numbers: dict[str, int], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make_loader(clips, MODES[0], **numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_fewer_rows_than_ranks_are_refused_by_all_ranks_unless_padding_is_asked_for(
    clips: MemoryClips, mode: Modes
) -> None:
    alone = make_loader(clips, mode, seed=7)
    num_steps, fewest = len(alone), min(batch.global_rows for batch in alone)
    for rank in range(fewest + 1):
        ranks = {"rank": rank, "world_size": fewest + 1}
        with pytest.raises(ConfigError, match=rf"epoch 0 .*rows \({fewest}\).*ranks \({fewest + 1}\)"):
            make_loader(clips, mode, seed=7, **ranks)  # type: ignore[arg-type]
        assert len(make_loader(clips, mode, seed=7, pad_ranks=True, **ranks)) == num_steps  # type: ignore[arg-type]
    loader = make_loader(clips, mode, seed=7, rank=0, world_size=fewest)
    assert not any(batch.is_padding for batch in loader)


def test_changing_one_value_of_a_clip_changes_the_digest(clips: MemoryClips) -> None:
    changed = [clips[index] for index in range(len(clips))]
    array = changed[3].array.copy()
    array[0, 0] += 1
    changed[3] = MemoryClip(changed[3].id, array)
    assert MemoryClips(changed).digest != clips.digest
    assert MemoryClips([clips[index] for index in range(len(clips))]).digest == clips.digest
