"""Intervals hold the truth as often as they say, and come from whole recordings."""

import numpy as np
import pytest

from solfa.ops.embedding_distances import fad, kernel_sums, median_distance
from solfa.ops.recording_bootstrap import draw_times, halves, interval_of, mean_draws, split_floor


def test_every_draw_has_as_many_recordings_and_sets_of_one_size_are_drawn_alike():
    times = draw_times(7, 50, seed=3)
    assert (times.sum(axis=1) == 7).all() and len(np.unique(times, axis=0)) > 40
    assert np.array_equal(times, draw_times(7, 50, seed=3)) and not np.array_equal(times, draw_times(7, 50, seed=4))


def test_a_draw_is_of_the_same_recordings_for_all_kinds_and_weighted():
    values, weights = np.array([[1.0, 4.0, 9.0], [2.0, 8.0, 18.0]]), np.array([1.0, 2.0, 3.0])
    single, double = mean_draws(values, 50, seed=0, weights=weights)
    assert np.array_equal(2 * single, double)
    times = draw_times(3, 50, seed=0)
    slowly = [
        sum(t * w * v for t, w, v in zip(row, weights, values[0], strict=True)) / sum(row * weights) for row in times
    ]
    np.testing.assert_allclose(single, slowly, rtol=1e-12)


def test_the_interval_of_a_mean_holds_it_nineteen_times_of_twenty():
    rng = np.random.default_rng(0)
    hits = 0
    for trial in range(200):
        values = rng.exponential(size=60)
        low, high = interval_of(values.mean(), mean_draws(values, 200, trial))
        hits += low <= 1.0 <= high
    # 190 expected; five standard deviations of a binomial are 15, and skew costs a little.
    assert hits >= 170


@pytest.mark.parametrize("frames", [1, 5])
def test_intervals_of_one_distribution_cover_zero(frames):
    """Both distances; FAD itself is far from zero here, its interval is not."""
    rng = np.random.default_rng(frames)
    owners = np.repeat(np.arange(40), frames)
    times = draw_times(40, 120, seed=0), draw_times(40, 120, seed=1)
    kad_hits = fad_hits = 0
    for _ in range(12):
        x, y = (rng.normal(size=(40, 3))[owners] + 0.3 * rng.normal(size=(len(owners), 3)) for _ in range(2))
        sums = kernel_sums(x, owners, y, owners, median_distance(x))
        value = sums.discrepancy(np.ones(40), np.ones(40))
        low, high = interval_of(value, np.array([sums.discrepancy(*pair) for pair in zip(*times, strict=True)]))
        kad_hits += low <= 0 <= high
        draws = [fad(x, y, one[owners], other[owners]) for one, other in zip(*times, strict=True)]
        low, high = interval_of(fad(x, y), np.array(draws))
        fad_hits += low <= 0 <= high
    assert kad_hits >= 10 and fad_hits >= 9


def test_a_recording_is_not_compared_with_its_own_copy():
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(6), [1, 2, 3, 1, 2, 2])
    x = rng.normal(size=(6, 3))[owners] + 0.3 * rng.normal(size=(11, 3))
    y = x + 0.5
    copies, bandwidth = np.eye(6, dtype=np.bool_), median_distance(x)
    times = np.array([1.0, 0, 2, 1, 1, 1]), np.array([0.0, 1, 1, 2, 1, 1])

    def mean_kernel(one, other, weights, other_weights):
        pairs = [(i, j) for i in range(11) for j in range(11) if owners[i] != owners[j]]
        kernel = [np.exp(-((one[i] - other[j]) ** 2).sum() / (2 * bandwidth**2)) for i, j in pairs]
        return np.average(kernel, weights=[weights[owners[i]] * other_weights[owners[j]] for i, j in pairs])

    within = mean_kernel(x, x, times[0], times[0]) + mean_kernel(y, y, times[1], times[1])
    sums = kernel_sums(x, owners, y, owners, bandwidth, copies)
    assert sums.discrepancy(*times) == pytest.approx(within - 2 * mean_kernel(x, y, *times), abs=1e-12)
    alone = np.ones(6), np.ones(6)
    assert kernel_sums(x, owners, x, owners, bandwidth, copies).discrepancy(*alone) == pytest.approx(0, abs=1e-12)
    assert kernel_sums(x, owners, x, owners, bandwidth).discrepancy(*alone) < -0.01


def test_too_few_recordings_have_no_interval():
    assert np.isnan(interval_of(1.0, np.full(10, np.nan))).all()
    assert np.isnan(split_floor(3, lambda one, other: 0.0, 4, seed=0))


def test_halves_share_no_recording_and_miss_none():
    for one, other in halves(9, 5, seed=1):
        assert sorted([*one, *other]) == list(range(9)) and abs(len(one) - len(other)) <= 1
    assert split_floor(8, lambda one, other: float(len(one) + len(other)), 3, seed=0) == 8.0
