"""Times in training have the distributions that are asked for."""

import math

import pytest
import torch

from solfa.models.flow.config import LengthShift, LogitNormalTimes, LogSnrTimes, UniformTimes
from solfa.models.flow.times import training_times
from solfa.ops.noise_paths import coefficients

FRACTIONS = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000


def test_uniform_times_are_the_fractions():
    assert torch.equal(training_times(FRACTIONS, UniformTimes(), "rectified_flow", 1.0), FRACTIONS)


def test_the_logit_of_a_logit_normal_time_is_normal():
    logits = torch.logit(training_times(FRACTIONS, LogitNormalTimes(kind="logit_normal", mean=0.3, std=0.8), "v", 1.0))
    assert float(logits.mean()) == pytest.approx(0.3, abs=1e-3)
    assert float(logits.std()) == pytest.approx(0.8, abs=2e-3)


@pytest.mark.parametrize("objective", ["rectified_flow", "v"])
def test_the_logarithm_of_data_to_noise_is_uniform(objective):
    draw = LogSnrTimes(kind="log_snr", min=-6.0, max=2.0)
    times = training_times(FRACTIONS, draw, objective, 1.0)
    data, noise = coefficients(times, objective)
    found = 2 * (data / noise).log()
    assert torch.allclose(found, 2.0 - 8.0 * FRACTIONS, atol=1e-9)
    assert torch.all(times.diff() > 0)


def test_a_shift_can_grow_with_the_length_of_a_clip():
    shift = LengthShift(min_frames=100, max_frames=400, min_shift=1.0, max_shift=4.0)
    assert [shift.at(count) for count in (10, 100, 250, 400, 9000)] == pytest.approx([1.0, 1.0, 2.0, 4.0, 4.0])
    shifts = torch.tensor([1.0, 4.0], dtype=torch.float64)
    times = training_times(torch.tensor([0.5, 0.5], dtype=torch.float64), UniformTimes(), "rectified_flow", shifts)
    assert times.tolist() == pytest.approx([0.5, 0.8])


def test_a_shift_spends_more_time_near_noise():
    mean = float(training_times(FRACTIONS, UniformTimes(), "rectified_flow", 3.0).mean())
    # The integral of 3 t / (1 + 2 t) from 0 to 1.
    assert mean == pytest.approx(1.5 - 0.75 * math.log(3), abs=1e-6)
