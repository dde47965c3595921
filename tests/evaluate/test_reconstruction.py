"""Distances between an original and what was decoded."""

import numpy as np
import pytest

from solfa.evaluate.reconstruction import mel_distance_db, signal_to_noise_db

NOISE = np.random.default_rng(0).standard_normal((2, 20_000)).astype(np.float32)


@pytest.mark.parametrize("ratio_db", [-10.0, 0.0, 42.0])
def test_signal_to_noise_is_the_ratio_of_powers(ratio_db):
    error = NOISE[::-1] * 10 ** (-ratio_db / 20)
    expected = 10 * np.log10((NOISE.astype(float) ** 2).mean() / (error.astype(float) ** 2).mean())
    assert signal_to_noise_db(NOISE, NOISE + error) == pytest.approx(expected, abs=1e-3)
    assert expected == pytest.approx(ratio_db, abs=0.1)


def test_no_error_is_infinitely_good_and_silence_infinitely_bad():
    assert signal_to_noise_db(NOISE, NOISE) == float("inf")
    assert signal_to_noise_db(np.zeros_like(NOISE), NOISE) == float("-inf")


def test_mel_distance_of_a_softer_copy_is_the_difference_of_levels():
    assert mel_distance_db(NOISE, NOISE, 16_000) == 0.0
    assert mel_distance_db(NOISE, NOISE * 10 ** (-6 / 20), 16_000) == pytest.approx(6.0, abs=1e-3)
