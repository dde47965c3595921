import math

import numpy as np
import pytest
import torch

from solfa.solvers.evidence.verdict import Judged, LossChange, compare_losses, judge
from solfa.solvers.evidence.weight_change import Moved, change_per_layer, layer_of

SPREAD = np.random.default_rng(0).normal(size=40)


def moved(by: float, noise: float = 0.01, before: float = 4.0, count: int = 40) -> LossChange:
    """Recordings whose losses all differ, and which a run moves by about as much."""
    judged = [
        Judged(str(index), before + spread, before + spread + by + noise * SPREAD[-index], 10.0 + index)
        for index, spread in enumerate(SPREAD[:count])
    ]
    found = compare_losses(judged)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("held_out", "train", "outcome", "word"),
    [
        (-0.5, -0.6, "it changed", "fell"),
        (0.5, -0.6, "it memorised", "rose"),
        (0.0, 0.0, "it did not change anything", "stayed"),
        (0.0, -0.6, "it changed", "stayed"),
        (0.5, 0.6, "it changed", "for the worse"),
        (0.5, 0.0, "it changed", "for the worse"),
        (1e-4, -1e-4, "it did not change anything", "stayed"),
    ],
)
def test_the_verdict_follows_from_what_fell_and_what_rose(
    held_out: float, train: float, outcome: str, word: str
) -> None:
    verdict = judge(moved(held_out, noise=1e-5), moved(train, noise=1e-5))
    assert verdict.outcome == outcome
    assert verdict.sentence.startswith(outcome)
    assert word in verdict.sentence


def test_a_change_that_other_recordings_might_not_show_does_not_count() -> None:
    assert moved(-0.1, noise=0.01).direction == -1
    assert moved(-0.1, noise=5.0).direction == 0


def test_a_small_change_counts_because_recordings_are_compared_with_themselves() -> None:
    change = moved(-0.02, noise=0.01)
    assert change.before.low < change.after.value < change.before.high
    assert change.direction == -1


def test_without_held_out_data_nothing_can_be_called_memorised() -> None:
    assert judge(None, moved(-0.5)).outcome == "it changed"
    assert judge(None, None).outcome == "it did not change anything"
    assert compare_losses([]) is None


def test_one_recording_has_no_interval() -> None:
    change = compare_losses([Judged("a", 4.0, 3.0, 7.0)])
    assert change is not None
    assert change.difference == (-1.0, -1.0, -1.0)
    assert "interval" not in judge(change, None).sentence


def test_means_are_weighted_and_intervals_have_the_width_that_theory_says() -> None:
    values = np.random.default_rng(1).normal(size=400)
    change = compare_losses([Judged("", value, 2 * value, 1.0) for value in values])
    assert change is not None
    assert change.before.value == pytest.approx(values.mean())
    # The mean of 2000 draws estimates the standard error to 1 / sqrt(2 * 2000) of it, and its ends to about 5 %.
    expected = 1.96 * values.std() / math.sqrt(len(values))
    for end, sign in ((change.before.low, -1), (change.before.high, 1)):
        assert sign * (end - change.before.value) == pytest.approx(expected, rel=0.2)
    heavy = compare_losses([Judged("a", 1.0, 1.0, 3.0), Judged("b", 5.0, 5.0, 1.0)])
    assert heavy is not None
    assert heavy.before.value == 2.0


def test_the_change_of_a_layer_is_the_norm_over_all_its_weights() -> None:
    def weight(*values: float) -> torch.Tensor:
        return torch.tensor(values)

    found = change_per_layer(
        [
            Moved("lm.layers.0.fc1.weight", weight(3.0, 0.0), weight(3.0, 3.0)),
            Moved("lm.layers.0.fc2.weight", weight(0.0, 4.0), weight(4.0, 4.0)),
            Moved("lm.layers.1.fc1.weight", weight(1.0), weight(1.0)),
            Moved("lm.heads.weight", weight(0.0), weight(2.0)),
        ]
    )
    assert [(change.layer, change.change, change.norm) for change in found] == [
        ("lm.layers.0", 5.0, 5.0),
        ("lm.layers.1", 0.0, 1.0),
        ("lm.heads", 2.0, 0.0),
    ]
    assert [change.share for change in found] == [1.0, 0.0, math.inf]
    assert layer_of("weight") == "weight"
