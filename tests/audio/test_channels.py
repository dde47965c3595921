"""The channel rule."""

import numpy as np
import pytest

from solfa.audio.channels import distinct_channels, to_channels

AUDIO = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_equal_counts_leave_the_audio_as_it_is():
    assert to_channels(AUDIO, 3) is AUDIO


def test_mono_is_repeated():
    assert np.array_equal(to_channels(AUDIO[:1], 2), AUDIO[[0, 0]])


@pytest.mark.parametrize("num_channels", [1, 2, 5])
def test_unequal_counts_become_the_mean_repeated(num_channels):
    expected = np.stack([(AUDIO[0] + AUDIO[1] + AUDIO[2]) / 3] * num_channels)
    assert np.array_equal(to_channels(AUDIO, num_channels), expected)
    assert to_channels(AUDIO, num_channels).dtype == np.float32


@pytest.mark.parametrize("num_channels", [1, 2, 3, 4])
def test_reducing_first_changes_nothing(num_channels):
    reduced = distinct_channels(AUDIO, num_channels)
    assert np.array_equal(to_channels(reduced, num_channels), to_channels(AUDIO, num_channels))
