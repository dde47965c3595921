import subprocess
import sys

import numpy as np

from solfa.data.stable_random import Shuffler, crop_starts, stable_key

DRAWS = """
import numpy as np
from solfa.data.stable_random import Shuffler, crop_starts
print(crop_starts(3, 1, ["a/b.wav"], np.array([10**6])).tolist(), Shuffler("digest", 3, 1).permutation(5).tolist())
"""


def crop_start(seed: int, epoch: int, clip_id: str, slack: int) -> int:
    """Draw the first frame of one crop, by the definition."""
    return (stable_key("crop", seed, epoch, clip_id) >> 64) * (slack + 1) >> 64


def test_draws_are_the_same_in_another_process_with_another_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", DRAWS], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    here = f"[{crop_start(3, 1, 'a/b.wav', 10**6)}] {Shuffler('digest', 3, 1).permutation(5).tolist()}\n"
    assert outputs == {here}


def test_draws_never_change_between_releases() -> None:
    assert crop_starts(0, 0, ["music/one.flac"], np.array([999_999])).tolist() == [63_986]
    assert Shuffler("digest", 0, 0).permutation(8).tolist() == [2, 0, 6, 1, 7, 5, 3, 4]


def test_every_part_of_a_name_matters() -> None:
    names = [(0, 0, "a"), (1, 0, "a"), (0, 1, "a"), (0, 0, "b"), (10, 0, "a"), (1, 10, "a"), (11, 0, "a")]
    assert len({stable_key(*name) for name in names}) == len(names)
    assert len({crop_start(*name, 2**40) for name in names}) == len(names)
    assert stable_key("ab", "c") != stable_key("a", "bc")


def test_crop_starts_cover_the_whole_clip_evenly() -> None:
    starts = crop_starts(0, 0, [f"clip {index}" for index in range(20_000)], np.full(20_000, 9))
    assert np.bincount(starts, minlength=10).shape == (10,)
    assert np.abs(np.bincount(starts) / 2000 - 1).max() < 0.1
    assert crop_starts(0, 0, ["clip"], np.array([0])).tolist() == [0]


def test_crops_of_many_clips_begin_where_each_of_them_would() -> None:
    names = ["a", "", "ä/ö.wav", "\ud800", *(f"clip {index}" for index in range(200))]
    rng = np.random.default_rng(0)
    for highest in (1, 7, 1000, 2**32 - 2, 2**32 - 1, 2**32, 2**62):
        slacks = rng.integers(0, highest, len(names), endpoint=True)
        slacks[:3] = (0, highest, highest - 1)
        expected = [crop_start(-3, 12, name, slack) for name, slack in zip(names, slacks.tolist(), strict=True)]
        found = crop_starts(-3, 12, names, slacks)
        assert found.dtype == np.int64 and found.tolist() == expected
    assert crop_starts(0, 0, [], np.zeros(0, np.int64)).tolist() == []


def test_permutations_are_permutations_and_differ() -> None:
    shuffler = Shuffler("digest", 0, 0)
    first, second = shuffler.permutation(1000), shuffler.permutation(1000)
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(1000))
    orders = [first, second] + [
        Shuffler(*name).permutation(1000) for name in [("other", 0, 0), ("digest", 1, 0), ("digest", 0, 1)]
    ]
    assert len({order.tobytes() for order in orders}) == 5
