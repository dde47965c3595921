"""Means are weighted, exact over many steps, and the same however the steps are spread over processes."""

import math

import pytest
import torch

from solfa.solvers.loop.averages import Averages

STEPS = [({"loss": 3.0, "acc": 0.5}, 4.0), ({"loss": 1.0}, 2.0), ({"loss": -2.0, "acc": 1.0}, 5.0), ({"acc": 0.0}, 1.0)]


def weighted_mean(name: str) -> float:
    counted = [(metrics[name], weight) for metrics, weight in STEPS if name in metrics]
    return sum(value * weight for value, weight in counted) / sum(weight for _, weight in counted)


def averages_of(steps: list[tuple[dict[str, float], float]]) -> Averages:
    averages = Averages()
    for metrics, weight in steps:
        averages.add(metrics, weight)
    return averages


def test_means_are_weighted_and_a_metric_counts_only_where_it_was_given() -> None:
    means = averages_of(STEPS).means()
    assert means == {"loss": pytest.approx(weighted_mean("loss")), "acc": pytest.approx(weighted_mean("acc"))}


@pytest.mark.parametrize("cut", range(len(STEPS) + 1))
def test_processes_together_have_the_mean_of_all_their_steps(cut: int) -> None:
    states = [averages_of(part).state() for part in (STEPS[:cut], STEPS[cut:])]
    means = Averages.of(states).means()
    assert means == {"loss": pytest.approx(weighted_mean("loss")), "acc": pytest.approx(weighted_mean("acc"))}


def test_a_step_without_weight_does_not_poison_the_mean() -> None:
    averages = averages_of([({"loss": math.nan}, 0.0), ({"loss": 2.0}, 3.0), ({"loss": math.inf}, 0.0)])
    assert averages.means() == {"loss": 2.0}
    assert Averages.of([averages.state(), averages_of([({"loss": math.nan}, 0.0)]).state()]).means() == {"loss": 2.0}


def test_nothing_but_steps_without_weight_gives_zero() -> None:
    assert averages_of([({"loss": math.nan}, 0.0)]).means() == {"loss": 0.0}
    assert Averages().means() == {}


def test_a_fault_that_counts_is_not_hidden() -> None:
    assert math.isnan(averages_of([({"loss": math.nan}, 1.0), ({"loss": 2.0}, 3.0)]).means()["loss"])


def test_going_on_from_a_state_gives_the_very_bits_of_going_through() -> None:
    generator = torch.Generator().manual_seed(0)
    steps = [
        ({"loss": float(value)}, 1.0 + index % 3) for index, value in enumerate(torch.randn(50, generator=generator))
    ]
    resumed = Averages.of([averages_of(steps[:23]).state()])
    for metrics, weight in steps[23:]:
        resumed.add(metrics, weight)
    assert resumed.state() == averages_of(steps).state()


def test_tensors_lose_their_graph_and_small_terms_are_not_lost_beside_large_ones() -> None:
    averages = Averages()
    averages.add({"loss": torch.tensor(1e8, requires_grad=True)}, 1.0)
    for _ in range(100):
        averages.add({"loss": torch.tensor(1.0, requires_grad=True)}, 1.0)
    assert averages.means()["loss"] == (1e8 + 100) / 101
    assert not any(total.requires_grad for total in averages._sums.values())
