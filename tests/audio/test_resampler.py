"""Spans of the output: every output sample belongs to exactly one span, and joints cannot be heard or measured."""

from itertools import pairwise

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from solfa.audio.resampler import resample_span, resampled_span, source_margin

RATES = [(44100, 32000), (48000, 24000), (22050, 44100), (192000, 8000), (44100, 16000), (44100, 48000), (8000, 44100)]
rates = st.sampled_from([8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000, 96000, 192000, 47999])


@settings(deadline=None)
@given(st.integers(0, 2**40), st.integers(1, 10**7), st.integers(1, 10**7), rates, rates)
def test_consecutive_spans_meet_without_gap_or_overlap(start, length, next_length, source_rate, sample_rate):
    middle, stop = start + length, start + length + next_length
    first, joint = resampled_span(start, middle, source_rate, sample_rate)
    next_first, last = resampled_span(middle, stop, source_rate, sample_rate)
    assert joint > first and last > next_first
    if joint - first > 1 or length * sample_rate >= source_rate:
        assert joint == next_first


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 300), rates, rates)
def test_span_owns_the_output_samples_that_lie_within_it(start, length, source_rate, sample_rate):
    first, last = resampled_span(start, start + length, source_rate, sample_rate)
    scan = range(start * sample_rate // source_rate - 2, (start + length) * sample_rate // source_rate + 3)
    within = [j for j in scan if start * sample_rate <= j * source_rate < (start + length) * sample_rate]
    assert list(range(first, last)) == within or (not within and last == first + 1)


def test_single_sample_far_below_the_output_rate_still_yields_one():
    assert resampled_span(1, 2, 192000, 8000) == (1, 2)
    assert resampled_span(0, 1, 192000, 8000) == (0, 1)
    assert resampled_span(5, 5, 44100, 44100) == (5, 5)


@settings(deadline=None)
@given(st.integers(0, 10**7), st.integers(1, 10**6), st.integers(0, 10**6), rates, rates)
def test_margin_covers_the_span_and_begins_on_a_common_sample(start, length, rest, source_rate, sample_rate):
    num_samples = start + length + rest
    low, high = source_margin(start, start + length, num_samples, source_rate, sample_rate)
    assert 0 <= low <= start < start + length <= high <= num_samples
    assert source_rate == sample_rate or low * sample_rate % source_rate == 0


@pytest.mark.parametrize(("source_rate", "sample_rate"), RATES)
def test_resampled_spans_joined_equal_the_whole_resampled(source_rate, sample_rate):
    rng = np.random.default_rng(source_rate + sample_rate)
    num_samples = source_rate * 2 + 17
    audio = rng.uniform(-1, 1, (2, num_samples)).astype(np.float32)
    expected = soxr.resample(audio.T, source_rate, sample_rate, quality="VHQ").T
    cuts = [0, *sorted(int(cut) for cut in rng.integers(100, num_samples - 100, 5)), num_samples]
    parts = []
    for start, stop in pairwise(cuts):
        low, high = source_margin(start, stop, num_samples, source_rate, sample_rate)
        parts.append(resample_span(audio[:, low:high], low, start, stop, source_rate, sample_rate))
    joined = np.concatenate(parts, axis=1)
    assert joined.shape[1] == -(-num_samples * sample_rate // source_rate)
    common = min(joined.shape[1], expected.shape[1])
    assert expected.shape[1] - common <= 1
    assert np.abs(joined[:, :common] - expected[:, :common]).max() < 3e-7


def test_resampling_keeps_a_tone_in_place():
    source_rate, sample_rate = 44100, 32000
    tone = np.sin(2 * np.pi * 440 * np.arange(source_rate) / source_rate)[None].astype(np.float32)
    start, stop = 9_999, 30_001
    low, high = source_margin(start, stop, source_rate, source_rate, sample_rate)
    first, last = resampled_span(start, stop, source_rate, sample_rate)
    found = resample_span(tone[:, low:high], low, start, stop, source_rate, sample_rate)
    expected = np.sin(2 * np.pi * 440 * np.arange(first, last) / sample_rate)
    assert np.abs(found[0] - expected).max() < 1e-5
