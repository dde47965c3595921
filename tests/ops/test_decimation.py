"""Decimation: equal to the convolution that defines it, with a filter that keeps what landmarks look at."""

import numpy as np
import pytest

from solfa.ops.decimation import DELAY, decimate, low_pass


@pytest.mark.parametrize("factor", [2, 3, 6])
def test_it_is_every_so_manieth_sample_of_the_filtered_sound(factor: int) -> None:
    samples = np.random.default_rng(factor).standard_normal(40_000).astype(np.float32)
    taps = low_pass(factor)
    expected = np.convolve(samples.astype(np.float64), taps.astype(np.float64), mode="valid")[::factor]
    found = decimate(samples, factor)
    assert len(expected) - 2 * DELAY <= len(found) <= len(expected)
    # Every product and sum of float32 is off by 2^-24 of the largest sum there can be.
    bound = len(taps) * 2.0**-24 * float(np.abs(taps).sum()) * float(np.abs(samples).max())
    assert np.abs(found - expected[: len(found)]).max() < bound


@pytest.mark.parametrize("factor", [2, 3, 4, 6])
def test_what_is_looked_at_is_kept_and_what_folds_onto_it_is_not(factor: int) -> None:
    decibels = 20 * np.log10(np.abs(np.fft.rfft(low_pass(factor).astype(np.float64), 1 << 14)) + 1e-12)
    band = np.linspace(0, factor, len(decibels))  # of the new rate's band
    assert np.abs(decibels[band <= 0.82]).max() < 0.04
    assert decibels[band >= 2 - 0.82].max() < -46


def test_a_result_stands_for_its_own_time() -> None:
    times = np.arange(24_000) / 24_000
    slow = decimate(np.sin(2 * np.pi * 50 * times).astype(np.float32), 3)
    expected = np.sin(2 * np.pi * 50 * (np.arange(len(slow)) + DELAY) / 8_000)
    assert np.abs(slow - expected).max() < 0.004  # the filter keeps it to 0.04 dB


@pytest.mark.parametrize("num_samples", [0, 1, 47, 48, 95])
def test_less_than_the_filter_gives_nothing(num_samples: int) -> None:
    assert len(decimate(np.ones(num_samples, np.float32), 3)) == 0
