"""Held-out recordings: always the same, never on both sides, whole."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solfa.config import parse_config
from solfa.data.sources.hold_out import HoldOut, on_side, recording_of
from solfa.errors import ConfigError


def ids_of(num_recordings: int, segments: int = 3) -> list[str]:
    return [f"song{r}.flac@{start:09.3f}" for r in range(num_recordings) for start in range(segments)]


@pytest.mark.parametrize(
    ("clip_id", "recording"),
    [
        ("a/b.wav", "a/b.wav"),
        ("a/b.wav@00010.000", "a/b.wav"),
        ("a/b.wav@123456.789", "a/b.wav"),
        ("a/b.wav@00010.000#2", "a/b.wav"),
        ("a/b.wav#0000123", "a/b.wav"),
        ("user@host.com", "user@host.com"),
        ("take@1.5", "take@1.5"),
    ],
)
def test_a_recording_is_the_id_without_the_start_of_the_segment(clip_id: str, recording: str) -> None:
    assert recording_of(clip_id) == recording


@pytest.mark.parametrize("hold_out", [HoldOut(fraction=0.3), HoldOut(clips=20)])
def test_segments_of_one_recording_are_on_one_side_and_every_clip_is_on_exactly_one(hold_out: HoldOut) -> None:
    ids = ids_of(40)
    train, valid = on_side(ids, hold_out, "train"), on_side(ids, hold_out, "valid")
    assert (train != valid).all() and train.any() and valid.any()
    sides = {side: {recording_of(ids[i]) for i in np.flatnonzero(mask)} for side, mask in enumerate((train, valid))}
    assert not sides[0] & sides[1]


@given(st.randoms(use_true_random=False), st.sampled_from([HoldOut(fraction=0.4), HoldOut(clips=17)]))
def test_the_order_of_the_clips_does_not_matter(random, hold_out: HoldOut) -> None:  # type: ignore[no-untyped-def]
    ids = ids_of(30)
    shuffled = random.sample(ids, len(ids))
    expected = dict(zip(ids, on_side(ids, hold_out, "valid"), strict=True))
    assert dict(zip(shuffled, on_side(shuffled, hold_out, "valid"), strict=True)) == expected


def test_with_a_fraction_new_recordings_move_no_other_and_the_share_is_about_right() -> None:
    few, many = ids_of(200, 1), ids_of(2000, 1)
    hold_out = HoldOut(fraction=0.1)
    assert (on_side(many, hold_out, "valid")[: len(few)] == on_side(few, hold_out, "valid")).all()
    assert 0.08 < on_side(many, hold_out, "valid").mean() < 0.12


def test_a_number_of_clips_takes_as_few_whole_recordings_as_reach_it() -> None:
    ids = ids_of(40, segments=3)
    assert on_side(ids, HoldOut(clips=20), "valid").sum() == 21


def test_another_seed_is_another_choice() -> None:
    ids = ids_of(100, 1)
    first, second = (on_side(ids, HoldOut(fraction=0.5, seed=seed), "valid") for seed in (0, 1))
    assert 20 < (first != second).sum() < 80


@pytest.mark.parametrize(
    ("hold_out", "words"),
    [
        (HoldOut(fraction=1e-9), "none of 5 recordings .*15 clips"),
        (HoldOut(clips=15), "clips 15 .*all of 5 recordings"),
    ],
)
def test_a_side_without_clips_is_refused(hold_out: HoldOut, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        on_side(ids_of(5), hold_out, "train")


@pytest.mark.parametrize("number", [2, 5])
def test_a_fraction_that_takes_none_is_answered_with_one_that_does(number: int) -> None:
    for seed in range(150):  # two recordings are within a hundredth of each other in about three of these
        with pytest.raises(ConfigError) as raised:
            on_side(ids_of(number), HoldOut(fraction=1e-9, seed=seed), "train")
        found = re.search(r"dset\.hold_out\.fraction=(0\.\d+)", str(raised.value))
        assert found is not None
        valid = on_side(ids_of(number), HoldOut(fraction=float(found[1]), seed=seed), "valid")
        assert valid.any() and not valid.all()


def test_of_one_recording_no_part_can_be_held_out() -> None:
    with pytest.raises(ConfigError, match=r"1 recording with 3 clips.*dset\.valid=.*dset\.hold_out=null") as raised:
        on_side(ids_of(1), HoldOut(fraction=0.05), "train")
    assert "fraction" not in str(raised.value)


@pytest.mark.parametrize("values", [{}, {"fraction": 0.1, "clips": 3}, {"fraction": 1.0}, {"clips": 0}])
def test_sizes_that_cannot_be_meant_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"fraction|clips"):
        parse_config(HoldOut, values, "dset.hold_out")
