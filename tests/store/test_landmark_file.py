"""Landmarks beside a shard: they come back as they were, change nothing else, and damage is found."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from solfa.errors import StoreError
from solfa.store.array_dataset import append_arrays
from solfa.store.dataset import open_dataset
from solfa.store.gc import collect_garbage
from solfa.store.landmark_file import (
    ClipLandmarks,
    LandmarkFile,
    StoredLandmarks,
    create_landmarks,
    landmark_key,
    shards_with_landmarks,
)
from solfa.store.verification import verify
from tests.store.store_maker import MADE_BY, codes_spec, info_of, make_outcomes


def numbers_of(index: int) -> np.ndarray:
    return np.random.default_rng(index).integers(0, 1 << 32, index % 4, dtype=np.uint32)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Nine clips in three shards, one failed; the first shard has landmarks, the others were written without."""
    root, spec = tmp_path / "x.solfa", codes_spec()
    outcomes = make_outcomes(spec, [5] * 9, failed=[2])
    known = [
        replace(outcome, landmarks=numbers_of(index)) if index < 3 and outcome.array is not None else outcome
        for index, outcome in enumerate(outcomes)
    ]
    append_arrays(root, info_of(spec), known, MADE_BY, clips_per_shard=3)
    return root


def test_they_come_back_clip_by_clip_and_what_has_none_is_unknown(made: Path) -> None:
    dataset = open_dataset(made)
    assert shards_with_landmarks(made) == [0]
    found = dataset.landmarks()
    assert found.is_known.tolist() == [True, True, *[False] * 6]
    assert [found.of(row).tolist() for row in range(3)] == [numbers_of(0).tolist(), numbers_of(1).tolist(), []]
    some = dataset.select([7, 1, 0, 1]).landmarks()
    assert some.is_known.tolist() == [False, True, True, True]
    assert [some.of(row).tolist() for row in range(4)] == [[], *(numbers_of(row).tolist() for row in (1, 0, 1))]


def test_a_dataset_is_the_same_with_and_without_them(made: Path) -> None:
    before = open_dataset(made).digest
    late = [ClipLandmarks(f"clip/{index:03d}", numbers_of(index)) for index in range(3, 6)]
    assert create_landmarks(made, 1, late)
    content = (made / landmark_key(1)).read_bytes()
    assert not create_landmarks(made, 1, [])
    assert (made / landmark_key(1)).read_bytes() == content
    assert open_dataset(made).digest == before
    assert open_dataset(made).landmarks().is_known.sum() == 5
    assert verify(made).problems == []
    assert collect_garbage(made) == []


def test_joined_parts_are_laid_end_to_end() -> None:
    one = StoredLandmarks(np.arange(3, dtype=np.uint32), np.array([0, 1, 3]), np.array([True, True]))
    none = StoredLandmarks(np.zeros(0, np.uint32), np.array([0, 0]), np.array([False]))
    joined = StoredLandmarks.join([one, none, one])
    assert [joined.of(row).tolist() for row in range(5)] == [[0], [1, 2], [], [0], [1, 2]]
    assert joined.is_known.tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("place", [0.0, 0.3, 0.5, 0.7, 0.99])
def test_damage_is_found(made: Path, place: float) -> None:
    create_landmarks(made, 1, [ClipLandmarks("clip/004", np.arange(1000, dtype=np.uint32))])
    path = made / landmark_key(1)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 4
    path.write_bytes(content)
    try:
        found = LandmarkFile(made, 1).clips()
    except StoreError as error:
        assert "solfa fingerprint" in str(error)
        assert [problem.path for problem in verify(made).problems] == [landmark_key(1)]
    else:  # a bit that nothing depends on: the padding between buffers
        assert found is not None and found[0].numbers.tolist() == list(range(1000))


def test_landmarks_of_strangers_are_found(made: Path) -> None:
    create_landmarks(made, 1, [ClipLandmarks("stranger", numbers_of(3))])
    create_landmarks(made, 7, [])
    assert "solfa fingerprint" in verify(made).problems[0].message
    (made / "landmarks/notes.txt").write_text("mine")
    assert {problem.path for problem in verify(made).problems} == {
        landmark_key(1),
        landmark_key(7),
        "landmarks/notes.txt",
    }
