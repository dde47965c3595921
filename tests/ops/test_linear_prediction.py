"""Linear prediction: against its definition, one sample at a time, and against filters whose answer is known."""

import math

import pytest
import torch
from torch import Tensor

from solfa.errors import ConfigError
from solfa.ops.linear_prediction import LEVEL_WINDOW, fit_prediction

ORDER, SMALLEST = 3, 1e-6


def noise(num_samples: int, seed: int = 0) -> Tensor:
    return torch.randn(num_samples, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def filtered(source: Tensor, coefficients: list[float]) -> Tensor:
    """Make x_t = a1 x_(t-1) + a2 x_(t-2) + ... + source_t."""
    made: list[float] = []
    for value in source.tolist():
        past = zip(coefficients, reversed(made), strict=False)
        made.append(value + sum(coefficient * before for coefficient, before in past))
    return torch.tensor(made, dtype=torch.float64)


def test_it_finds_the_filter_that_made_the_sound() -> None:
    source = 0.01 * noise(50_000)
    fitted = fit_prediction([filtered(source, [1.6, -0.8])], 4, 1, SMALLEST)
    # The standard error of a coefficient is at most 1 / sqrt(50,000) = 0.0045.
    assert fitted.coefficients.tolist() == pytest.approx([1.6, -0.8, 0, 0], abs=0.02)
    assert float(fitted.error) == pytest.approx(float(source.abs().mean()), rel=0.01)


def test_it_is_the_least_squares_of_all_recordings_and_whitens_their_past() -> None:
    recordings = [filtered(0.05 * noise(size, size), [0.9]) for size in (40, 200, 3, 75)]
    fitted = fit_prediction(recordings, ORDER, 4, SMALLEST)
    pasts, nexts = [], []
    for recording in recordings:
        for at in range(ORDER, len(recording)):
            pasts.append([float(recording[at - 1 - back]) for back in range(ORDER)])
            nexts.append(float(recording[at]))
    past, after = torch.tensor(pasts, dtype=torch.float64), torch.tensor(nexts, dtype=torch.float64)
    gram = past.T @ past / len(past)
    solved = torch.linalg.lstsq(past, after[:, None]).solution[:, 0]
    # Fitted numbers are rounded to float32, and the ridge is a billionth.
    assert fitted.coefficients.tolist() == pytest.approx(solved.tolist(), abs=1e-5)
    whitened = fitted.whitening.double() @ gram @ fitted.whitening.double().T
    assert (whitened - torch.eye(ORDER)).abs().max() < 1e-5
    assert torch.equal(fitted.whitening, fitted.whitening.tril())
    assert float(fitted.error) == pytest.approx(float((after - past @ solved).abs().mean()), rel=1e-4)


def test_levels_are_quantiles_of_local_residuals_from_quiet_to_loud() -> None:
    sizes = [10.0**-power for power in (4, 3, 2)]
    alternating = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(2 * LEVEL_WINDOW)
    sound = torch.cat([size * alternating for size in sizes])
    levels = fit_prediction([sound * noise(len(sound)).sign()], 1, 3, SMALLEST).log_levels
    # The predictor of such noise is nearly zero, so that residuals are as large as amplitudes.
    assert levels.exp().tolist() == pytest.approx(sizes, rel=0.3)
    assert (levels.diff() > 0).all()


def test_louder_recordings_have_the_same_predictor_and_louder_residuals() -> None:
    sound = filtered(0.01 * noise(500), [0.7, 0.1])
    quiet, loud = (fit_prediction([gain * sound], ORDER, 3, 1e-12) for gain in (1.0, 4.0))
    assert torch.allclose(quiet.coefficients, loud.coefficients, atol=1e-6)
    assert torch.allclose(quiet.whitening, 4 * loud.whitening, rtol=1e-5)
    assert torch.allclose(quiet.log_levels + math.log(4), loud.log_levels, atol=1e-5)


def test_silence_has_a_predictor_of_zeros_and_the_smallest_residual() -> None:
    fitted = fit_prediction([torch.zeros(100)], ORDER, 2, 1e-3)
    assert fitted.coefficients.tolist() == [0] * ORDER and fitted.whitening.isfinite().all()
    assert float(fitted.error) == pytest.approx(1e-3)
    assert fitted.log_levels.exp().tolist() == pytest.approx([1e-3] * 2)


def test_recordings_shorter_than_the_order_get_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"prediction_order: .*more than 3 samples"):
        fit_prediction([torch.zeros(3), torch.zeros(1)], ORDER, 1, SMALLEST)
