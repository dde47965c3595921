import tracemalloc
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from pydantic import ValidationError

from solfa.config import Config, parse_config
from solfa.data.batching.epoch_plan import EpochPlan
from solfa.data.batching.modes import Crop, Mode, Pack, Pad, plan_epoch
from solfa.data.batching.row_layout import Rows
from solfa.errors import ConfigError, StoreError

WHOLE_CLIPS = [
    Crop(num_frames=200, batch_size=16),
    Pad(batch_size=16),
    Pad(batch_size=16, window_batches=3),
    Pad(max_frames_per_batch=3000),
    Pad(max_frames_per_batch=1500, shuffle=False),
]
PACKED = [Pack(num_frames=100, batch_size=4), Pack(num_frames=3000, batch_size=2), Pack(num_frames=37, batch_size=5)]
Modes = Crop | Pad | Pack


def lengths(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(50, 1501, count)


def batches(plan: EpochPlan) -> list[Rows]:
    return [plan.batch(step) for step in range(len(plan))]


def clip_lists(
    mode: Modes, num_frames: np.ndarray, epoch: int = 0, seed: int = 0, digest: str = "d"
) -> list[list[int]]:
    return [batch.clips.tolist() for batch in batches(plan_epoch(mode, num_frames, digest, seed, epoch))]


def padding(mode: Modes, num_frames: np.ndarray) -> float:
    planned = batches(plan_epoch(mode, num_frames, "d", 0, 0))
    grid = sum(batch.num_rows * batch.num_columns for batch in planned)
    return 1 - sum(int(batch.num_frames.sum()) for batch in planned) / grid


@pytest.mark.parametrize("mode", WHOLE_CLIPS, ids=str)
def test_every_clip_comes_exactly_once_an_epoch(mode: Modes) -> None:
    clips = chain.from_iterable(clip_lists(mode, lengths(777)))
    assert sorted(clips) == list(range(777))


@pytest.mark.parametrize("mode", WHOLE_CLIPS + PACKED, ids=str)
def test_the_plan_depends_on_digest_seed_and_epoch_only(mode: Modes) -> None:
    num_frames = lengths(100)
    plans = [
        clip_lists(mode, num_frames, epoch, seed, digest)
        for epoch, seed, digest in [(0, 0, "d"), (0, 0, "d"), (1, 0, "d"), (0, 1, "d"), (0, 0, "e")]
    ]
    assert plans[0] == plans[1]
    assert all((plan == plans[0]) is not mode.shuffle for plan in plans[2:])


@pytest.mark.parametrize("mode", WHOLE_CLIPS + PACKED, ids=str)
def test_segments_lie_inside_their_clips_and_rows_and_never_overlap(mode: Modes) -> None:
    num_frames = lengths(100)
    for batch in batches(plan_epoch(mode, num_frames, "d", 0, 3)):
        taken = np.zeros((batch.num_rows, batch.num_columns), int)
        for row, column, count in zip(batch.rows, batch.columns, batch.num_frames, strict=True):
            assert count >= 1 and column + count <= batch.num_columns
            taken[row, column : column + count] += 1
        assert taken.max() == 1 and taken[:, 0].all()
        assert (batch.starts + batch.slacks + batch.num_frames <= num_frames[batch.clips]).all()
        order = batch.rows * batch.num_columns + batch.columns
        assert (np.diff(order) > 0).all()


def test_crops_may_begin_anywhere_unless_told_to_begin_with_the_clip() -> None:
    num_frames = np.array([10, 4, 3])
    batch = plan_epoch(Crop(num_frames=4, batch_size=3, shuffle=False), num_frames, "d", 0, 0).batch(0)
    assert batch.slacks.tolist() == [6, 0, 0] and batch.num_frames.tolist() == [4, 4, 3] and batch.num_columns == 4
    fixed = Crop(num_frames=4, batch_size=3, shuffle=False, random_start=False)
    assert plan_epoch(fixed, num_frames, "d", 0, 0).batch(0).slacks.tolist() == [0, 0, 0]


def test_length_buckets_waste_little_where_random_batches_waste_half() -> None:
    num_frames = lengths(50_000)
    sizes = [padding(Pad(batch_size=64), num_frames), padding(Pad(max_frames_per_batch=50_000), num_frames)]
    unsorted = padding(Pad(batch_size=64, window_batches=1), num_frames)
    assert unsorted > 0.45
    assert max(sizes) < 0.02
    assert padding(Pad(batch_size=64, window_batches=100_000, shuffle=False), num_frames) < 0.002


def test_a_frame_budget_is_kept_and_filled() -> None:
    num_frames = lengths(20_000)
    planned = batches(plan_epoch(Pad(max_frames_per_batch=20_000), num_frames, "d", 0, 0))
    grids = np.array([batch.num_rows * batch.num_columns for batch in planned])
    assert grids.max() <= 20_000
    assert np.mean(grids) > 0.93 * 20_000


def test_length_buckets_mix_differently_in_every_epoch_even_of_a_small_dataset() -> None:
    num_frames = np.arange(50, 250)
    groups = [{frozenset(clips) for clips in clip_lists(Pad(batch_size=10), num_frames, epoch)} for epoch in range(2)]
    assert len(groups[0] & groups[1]) <= 2


def test_batches_of_different_lengths_come_in_random_order() -> None:
    widths = [batch.num_columns for batch in batches(plan_epoch(Pad(batch_size=16), lengths(4000), "d", 0, 0))]
    assert abs(np.corrcoef(widths[1:], widths[:-1])[0, 1]) < 0.3


@pytest.mark.parametrize("mode", PACKED, ids=str)
def test_packed_rows_are_full_and_hold_every_frame_once_in_order(mode: Pack) -> None:
    num_frames = lengths(60)
    seen: Counter[tuple[int, int]] = Counter()
    planned = batches(plan_epoch(mode, num_frames, "d", 0, 0))
    for batch in planned:
        for clip, start, count in zip(batch.clips, batch.starts, batch.num_frames, strict=True):
            seen.update((int(clip), frame) for frame in range(start, start + count))
    assert set(seen.values()) == {1} and len(seen) == num_frames.sum()
    filled = np.concatenate([np.bincount(b.rows, b.num_frames, b.num_rows) for b in planned])
    assert (filled[:-1] == mode.num_frames).all() and 0 < filled[-1] <= mode.num_frames


@pytest.mark.parametrize(
    "mode", [Crop(num_frames=5, batch_size=8), Pad(batch_size=8), Pack(num_frames=90, batch_size=8)]
)
def test_the_tail_is_kept_unless_told_otherwise(mode: Modes) -> None:
    num_frames = lengths(203)
    kept = batches(plan_epoch(mode, num_frames, "d", 0, 0))
    dropped = batches(plan_epoch(mode.model_copy(update={"drop_last": True}), num_frames, "d", 0, 0))
    assert min(batch.num_rows for batch in kept) < 8
    assert {batch.num_rows for batch in dropped} == {8} and len(dropped) == len(kept) - 1
    if mode.kind == "pack":
        assert all(batch.num_frames.sum() == 8 * 90 for batch in dropped)


def test_dropping_the_tail_leaves_out_other_clips_in_every_epoch_short_and_long() -> None:
    num_frames = np.arange(1, 204)
    mode = Pad(batch_size=8, drop_last=True)
    missing = [set(range(203)) - set(chain.from_iterable(clip_lists(mode, num_frames, epoch))) for epoch in range(30)]
    assert {len(clips) for clips in missing} == {3} and len({frozenset(clips) for clips in missing}) == 30
    assert 70 < np.mean([clip for clips in missing for clip in clips]) < 130


@pytest.mark.parametrize(
    "mode",
    [Crop(num_frames=200, batch_size=64), Pad(max_frames_per_batch=50_000), Pack(num_frames=1000, batch_size=64)],
    ids=str,
)
def test_a_million_clips_are_planned_in_little_memory(mode: Modes) -> None:
    num_frames = lengths(1_000_000)
    tracemalloc.start()
    try:
        plan = plan_epoch(mode, num_frames, "d", 0, 0)
        for step in range(0, len(plan), len(plan) // 100):
            plan.batch(step)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50e6


@pytest.mark.parametrize(
    "settings", [{}, {"batch_size": 4, "max_frames_per_batch": 9}, {"max_frames_per_batch": 9, "drop_last": True}]
)
def test_pad_refuses_settings_that_contradict_or_would_be_ignored(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=r"batch_size"):
        Pad.model_validate(settings)


def test_a_mode_is_read_by_its_kind_and_a_typo_is_named() -> None:
    class Settings(Config):
        mode: Mode

    assert parse_config(Settings, {"mode": {"kind": "pad", "batch_size": 3}}, "x").mode == Pad(batch_size=3)
    with pytest.raises(ConfigError, match="num_frame"):
        parse_config(Settings, {"mode": {"kind": "crop", "num_frame": 3, "batch_size": 3}}, "x")


def test_what_cannot_be_planned_is_refused_with_a_reason() -> None:
    with pytest.raises(StoreError, match="no clips"):
        plan_epoch(Pad(batch_size=2), np.zeros(0, np.int64), "d", 0, 0)
    with pytest.raises(StoreError, match="clip 1 has 0 frames"):
        plan_epoch(Pad(batch_size=2), np.array([3, 0]), "d", 0, 0)
    with pytest.raises(ConfigError, match=r"clip 1 has 11 frames"):
        plan_epoch(Pad(max_frames_per_batch=10), np.array([3, 11]), "d", 0, 0)
    with pytest.raises(ConfigError, match=r"drop_last .*\b3\b.* 2 clips"):
        plan_epoch(Crop(num_frames=4, batch_size=3, drop_last=True), np.array([3, 11]), "d", 0, 0)
