"""Temperatures, and the numbers that draws are made of."""

import math

import pytest
import torch

from solfa.errors import ConfigError
from solfa.ops.temperature import check_temperature, draw_tempered, draw_uniforms


@pytest.mark.parametrize("temperature", [-0.1, math.inf, math.nan])
def test_what_is_no_temperature_is_refused(temperature: float) -> None:
    with pytest.raises(ConfigError, match=f"^temperature: .*found {temperature}"):
        check_temperature(temperature)
    check_temperature(0.0)


def test_numbers_come_from_the_seed_and_lie_strictly_between_zero_and_one() -> None:
    numbers = draw_uniforms((1000, 7), torch.Generator().manual_seed(3))
    assert numbers.shape == (1000, 7) and numbers.dtype == torch.float64
    assert 0 < numbers.min() < 1e-3 and 1 - 1e-3 < numbers.max() < 1
    assert torch.equal(numbers, draw_uniforms((1000, 7), torch.Generator().manual_seed(3)))
    # Steps of 2^-53: as float32 numbers they would be multiples of 2^-24, and 0 one of them.
    assert (numbers * 2**24 != (numbers * 2**24).round()).any()


def test_a_temperature_is_a_power_of_the_probabilities() -> None:
    probabilities = torch.tensor([0.1, 0.2, 0.3, 0.4])
    uniforms = (torch.arange(10_000).double() + 0.5) / 10_000
    logits = probabilities.log() + 5
    for temperature in (0.25, 1.0, 3.0):
        drawn = draw_tempered(logits.expand(10_000, 4), uniforms, temperature)
        powers = probabilities ** (1 / temperature)
        torch.testing.assert_close(drawn.bincount(minlength=4) / 10_000, powers / powers.sum(), rtol=0, atol=2e-4)


def test_the_lowest_temperatures_take_the_most_probable_class() -> None:
    logits = torch.tensor([[-3e38, 1e30, 2e30, -7.0]])
    for temperature in (0.0, 1e-45, 1e-30, 1e-3):
        assert draw_tempered(logits, torch.tensor([0.999]).double(), temperature).tolist() == [2]
