"""Streaming statistics equal their definitions over everything at once."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solfa.errors import StoreError
from solfa.evaluate import statistics
from solfa.evaluate.statistics import code_statistics, latent_statistics, length_histogram


def random_codes(lengths, num_codebooks, codebook_size, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.random((length, num_codebooks)) ** 2 * codebook_size).astype(np.uint16) for length in lengths]


def test_code_statistics_equal_their_definitions():
    clips = random_codes([50, 0, 1, 700], num_codebooks=3, codebook_size=100)
    found = code_statistics(clips, 100)
    for codebook in range(3):
        counter = Counter(int(code) for clip in clips for code in clip[:, codebook])
        total = sum(counter.values())
        entropy = -sum(number / total * math.log2(number / total) for number in counter.values())
        assert found.counts[codebook].tolist() == [counter[entry] for entry in range(100)]
        assert found.used_share[codebook] == pytest.approx(len(counter) / 100)
        assert found.entropy_bits[codebook] == pytest.approx(entropy)
        assert found.perplexity[codebook] == pytest.approx(2**entropy)
    assert found.num_frames == 751


@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    block=st.integers(1, 64),
    codebook_size=st.sampled_from([2, 300, 65_536]),
)
def test_streaming_codes_equals_counting_them_at_once(lengths, block, codebook_size):
    clips = random_codes(lengths, 2, codebook_size)
    at_once = code_statistics([np.concatenate(clips)], codebook_size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "FRAMES_AT_ONCE", block)
        assert np.array_equal(code_statistics(iter(clips), codebook_size).counts, at_once.counts)


def test_uniform_and_constant_codes_have_the_extreme_entropies():
    uniform = np.arange(65_536, dtype=np.uint16)[:, None]
    found = code_statistics([np.concatenate([uniform, np.zeros_like(uniform)], axis=1)], 65_536)
    assert found.entropy_bits == pytest.approx([16.0, 0.0])
    assert found.perplexity == pytest.approx([65_536.0, 1.0])
    assert found.used_share == pytest.approx([1.0, 1 / 65_536])


def test_no_clips_have_no_codebooks():
    assert code_statistics([], 16).num_codebooks == 0
    assert code_statistics([], 16).num_frames == 0


def test_a_code_outside_the_codebook_is_named():
    with pytest.raises(StoreError, match=r"codebook 1: .*\b9\b.*found 10"):
        code_statistics([np.array([[0, 3], [1, 10]], np.uint16)], 10)


def test_arrays_of_another_width_are_refused():
    with pytest.raises(StoreError, match=r"expected arrays \[T, 2\].*found \[4, 3\]"):
        code_statistics([np.zeros((4, 2), np.uint16), np.zeros((4, 3), np.uint16)], 10)


@pytest.mark.parametrize("block", [1, 5, 1 << 18])
def test_latent_statistics_equal_their_definitions(block, monkeypatch):
    monkeypatch.setattr(statistics, "FRAMES_AT_ONCE", block)
    rng = np.random.default_rng(0)
    clips = [rng.standard_normal((length, 4)).astype(np.float16) for length in (3, 0, 40, 1)]
    together = np.concatenate(clips).astype(np.float64)
    found = latent_statistics(iter(clips))
    assert found.num_values.tolist() == [44] * 4
    assert np.allclose(found.mean, together.mean(axis=0))
    assert np.allclose(found.std, together.std(axis=0))
    assert np.array_equal(found.minimum, together.min(axis=0))
    assert np.array_equal(found.maximum, together.max(axis=0))


def test_latent_deviation_survives_a_large_mean(monkeypatch):
    monkeypatch.setattr(statistics, "FRAMES_AT_ONCE", 10)
    values = 1e9 + np.random.default_rng(0).standard_normal((5_000, 1))
    assert latent_statistics([values]).std[0] == pytest.approx(values.std(), rel=1e-6)


def test_latents_that_are_not_numbers_are_counted_and_left_out():
    latents = np.array([[1.0, np.nan], [np.inf, np.nan], [3.0, np.nan]], np.float32)
    found = latent_statistics([latents])
    assert found.num_nonfinite.tolist() == [1, 3]
    assert found.mean[0] == 2.0 and found.std[0] == 1.0 and found.maximum[0] == 3.0
    assert np.isnan([found.mean[1], found.std[1], found.minimum[1]]).all()


@given(st.lists(st.floats(0.001, 40_000.0), min_size=1, max_size=200), st.integers(1, 60))
def test_every_length_is_in_the_bin_that_holds_it(lengths, max_bins):
    seconds = np.array(lengths)
    histogram = length_histogram(seconds, max_bins)
    assert histogram.counts.sum() == len(lengths)
    assert len(histogram.counts) <= max_bins and len(histogram.edges_seconds) == len(histogram.counts) + 1
    slack = 1e-6 * histogram.edges_seconds[-1]
    for place, number in enumerate(histogram.counts):
        low, high = histogram.edges_seconds[place : place + 2]
        assert number <= np.sum((seconds >= low - slack) & (seconds <= high + slack))


def test_bins_have_a_round_width():
    assert np.diff(length_histogram(np.array([0.5, 12.0, 30.0])).edges_seconds) == pytest.approx(1.0)
    assert np.diff(length_histogram(np.array([700.0])).edges_seconds) == pytest.approx(20.0)


@pytest.mark.parametrize("seconds", [[], [0.0]])
def test_no_lengths_make_one_bin(seconds):
    assert length_histogram(np.array(seconds)).counts.tolist() == [len(seconds)]
