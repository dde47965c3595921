"""Each fault is found where it is, and nowhere else."""

import numpy as np
import pytest

from solfa.evaluate import clip_facts
from solfa.evaluate.clip_faults import loudness
from tests.evaluate.sounds import RATE, melody


def sine(hz: float, rate: int, seconds: float = 2.0) -> np.ndarray:
    return np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate)[None]


@pytest.mark.parametrize("rate", [16_000, 44_100, 48_000])
def test_loudness_is_that_of_the_standard(rate):
    """A full-scale sine of 997 Hz is -3.01 LUFS in one channel and 0 in two (ITU-R BS.1770)."""
    assert loudness(sine(997.0, rate), rate) == pytest.approx(-3.01, abs=0.1)
    assert loudness(np.repeat(sine(997.0, rate), 2, axis=0), rate) == pytest.approx(0.0, abs=0.1)
    assert loudness(0.1 * sine(997.0, rate), rate) == pytest.approx(-23.01, abs=0.1)
    assert loudness(np.zeros((1, rate)), rate) == -np.inf


def test_pauses_do_not_make_a_clip_less_loud():
    sound = np.concatenate([sine(997.0, RATE, 2.0), 1e-5 * sine(997.0, RATE, 6.0)], axis=1)
    assert loudness(sound, RATE) == pytest.approx(-3.01, abs=0.5)


def test_a_good_clip_has_no_fault():
    found = clip_facts(melody(0), RATE, expected_seconds=3.0)
    assert found.faults == () and found.seconds == 3.0 and found.stereo_correlation is None


@pytest.mark.parametrize(
    ("sound", "fault"),
    [
        (np.concatenate([melody(0)[:, :RATE], np.zeros((1, 2 * RATE))], axis=1), "silence"),
        (np.clip(8 * melody(0), -1, 1), "clipping"),
        (0.04 * melody(0), "loudness"),
        (melody(0)[:, : 2 * RATE], "duration"),
        (np.concatenate([melody(0), np.zeros((1, 3 * RATE))]), "stereo"),
        (np.concatenate([melody(0), -melody(0)]), "stereo"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fault_is_named(sound, fault):
    assert fault in clip_facts(sound, RATE, expected_seconds=3.0).faults


def test_a_peak_at_full_scale_is_not_clipped():
    peak = 0.5 * melody(0).copy()
    peak[0, 100] = 1.0
    assert clip_facts(peak, RATE).clipped_share == 0.0
