"""Paths from data to noise: both objectives agree with their definitions and with each other."""

import math

import pytest
import torch

from solfa.ops.noise_paths import Objective, coefficients, noised, normal_quantile, shifted, target, velocity_on_line

OBJECTIVES: tuple[Objective, ...] = ("rectified_flow", "v")


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_path_begins_at_the_data_and_ends_at_the_noise(objective):
    data, noise = drawn(2, 3, 4, 5)
    assert torch.allclose(noised(data, noise, torch.zeros(3, dtype=torch.float64), objective), data, atol=1e-15)
    assert torch.allclose(noised(data, noise, torch.ones(3, dtype=torch.float64), objective), noise, atol=1e-15)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_target_is_the_derivative_of_the_path(objective):
    data, noise = drawn(2, 3, 4, 5)
    times = torch.tensor([0.1, 0.5, 0.8], dtype=torch.float64)
    step = 1e-6
    slope = (noised(data, noise, times + step, objective) - noised(data, noise, times - step, objective)) / (2 * step)
    # v is the derivative by the angle, which is pi / 2 for the whole path.
    per_time = 1.0 if objective == "rectified_flow" else math.pi / 2
    assert torch.allclose(slope, per_time * target(data, noise, times, objective), atol=1e-8)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_on_the_straight_path_every_objective_has_the_same_velocity(objective):
    data, noise = drawn(2, 3, 4, 5)
    times = torch.tensor([1e-3, 0.3, 1.0], dtype=torch.float64)
    line = noised(data, noise, times, "rectified_flow")

    def knows_everything(points, own):
        assert torch.allclose(points, noised(data, noise, own, objective), atol=1e-12)
        return target(data, noise, own, objective)

    assert torch.allclose(velocity_on_line(knows_everything, objective, line, times), noise - data, atol=1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_coefficients_of_v_keep_the_variance_and_those_of_the_flow_sum_to_one(objective):
    a, b = coefficients(torch.linspace(0, 1, 11, dtype=torch.float64), objective)
    kept = a + b if objective == "rectified_flow" else a**2 + b**2
    assert torch.allclose(kept, torch.ones_like(kept), atol=1e-15)


def test_a_shift_moves_times_towards_noise_and_is_undone_by_its_inverse():
    times = torch.linspace(0, 1, 21, dtype=torch.float64)
    moved = shifted(times, 3.0)
    assert torch.all(moved[1:-1] > times[1:-1]) and moved[0] == 0 and moved[-1] == 1
    assert torch.allclose(shifted(moved, 1 / 3.0), times, atol=1e-15)


def test_quantiles_are_those_of_the_normal_distribution():
    fractions = torch.tensor([0.001, 0.025, 0.5, 0.84], dtype=torch.float64)
    found = torch.special.ndtr(normal_quantile(fractions))
    assert torch.allclose(found, fractions, atol=1e-12)
