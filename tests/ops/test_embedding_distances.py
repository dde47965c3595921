"""Distances equal their definitions, do not see a difference where there is none, and grow with what is wrong."""

import numpy as np
import pytest
import torch

from solfa.ops import fad, fad_infinity, kad, tag_divergence
from solfa.ops.embedding_distances import kernel_sums, median_distance


def kad_as_published(x: np.ndarray, y: np.ndarray) -> float:
    """Restate the function of kadtk 1.1, pair by pair; `x` is the reference."""
    one, other = torch.from_numpy(x), torch.from_numpy(y)
    bandwidth = float(torch.median(torch.pdist(one)))

    def k(a: torch.Tensor, b: torch.Tensor) -> float:
        return float(torch.exp(-(a - b).square().sum() / (2 * bandwidth**2 + 1e-8)))

    m, n = len(x), len(y)
    within = sum(k(one[i], one[j]) for i in range(m) for j in range(m) if i != j) / (m * (m - 1))
    other_within = sum(k(other[i], other[j]) for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    across = sum(k(a, b) for a in one for b in other) / (m * n)
    return 100 * (within + other_within - 2 * across)


@pytest.mark.parametrize("sizes", [(12, 9), (7, 15)])
def test_kad_is_the_published_function(sizes):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(sizes[0], 5)), 0.5 + rng.normal(size=(sizes[1], 5))
    assert kad(x, y) == pytest.approx(kad_as_published(x, y), abs=1e-6)


def exactly(mean: np.ndarray, covariance: np.ndarray, count: int) -> np.ndarray:
    """Make a set whose mean and covariance are these, not nearly these."""
    noise = np.random.default_rng(2).normal(size=(count, len(mean)))
    noise -= noise.mean(axis=0)
    white = noise @ np.linalg.inv(np.linalg.cholesky(np.cov(noise.T))).T
    return white @ np.linalg.cholesky(covariance).T + mean


def test_fad_is_the_closed_form_for_gaussians():
    rng = np.random.default_rng(3)
    factors = rng.normal(size=(2, 6, 6))
    one, other = (factor @ factor.T + 0.1 * np.eye(6) for factor in factors)
    means = rng.normal(size=(2, 6))
    values, vectors = np.linalg.eigh(one)
    root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    shared = np.sqrt(np.linalg.eigvalsh(root @ other @ root)).sum()
    expected = np.square(means[0] - means[1]).sum() + np.trace(one) + np.trace(other) - 2 * shared
    found = fad(exactly(means[0], one, 100), exactly(means[1], other, 80))
    assert found == pytest.approx(expected, abs=1e-5)


def test_an_embedding_that_counts_twice_is_there_twice():
    rng = np.random.default_rng(4)
    x, y, times = rng.normal(size=(20, 3)), rng.normal(size=(15, 3)), rng.integers(0, 3, 15).astype(float)
    assert fad(x, y, None, times) == pytest.approx(fad(x, np.repeat(y, times.astype(int), axis=0)), abs=1e-9)


def test_fad_of_few_is_mostly_bias_and_kad_is_not():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(500, 8))
    few = [rng.normal(size=(80, 8)) for _ in range(12)]
    infinite = [fad_infinity(x, y, np.arange(80), seed) for seed, y in enumerate(few)]
    bias = np.mean([fad(x, y) for y in few])
    assert bias > 0.2 and abs(np.mean(infinite)) < bias / 3
    # Pairs that share nothing, and enough of them: the distance of equal sets is skewed, its mean is 0.
    values = [kad(rng.normal(size=(60, 8)), rng.normal(size=(40, 8))) for _ in range(200)]
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(len(values))


def test_frames_of_one_recording_do_not_make_two_halves_differ():
    """Ten frames that are nearly one: counted as ten, they would look like a set of their own."""
    rng = np.random.default_rng(6)
    owners = np.repeat(np.arange(12), 10)

    def recordings() -> np.ndarray:
        return rng.normal(size=(12, 4))[owners] + 0.05 * rng.normal(size=(120, 4))

    found, counted_apart = [], []
    for _ in range(30):
        x, y = recordings(), recordings()
        sums = kernel_sums(x, owners, y, owners, median_distance(x))
        found.append(100 * sums.discrepancy(np.ones(12), np.ones(12)))
        counted_apart.append(kad(x, y))
    standard_error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found)) < 3 * standard_error
    assert np.mean(counted_apart) > 3 * standard_error


def test_a_set_of_one_recording_has_no_distance():
    x = np.random.default_rng(7).normal(size=(6, 3))
    sums = kernel_sums(x, np.arange(6), x[:3], np.zeros(3, int), 1.0)
    assert np.isnan(sums.discrepancy(np.ones(6), np.ones(1)))
    with pytest.raises(ValueError, match="differ"):
        median_distance(np.zeros((5, 2)))


def test_divergence_of_tags_is_the_definition_and_is_larger_for_the_wrong_pairs():
    rng = np.random.default_rng(8)
    one = 3 * rng.normal(size=(30, 8))
    other = one + 0.3 * rng.normal(size=(30, 8))
    p, q = (torch.softmax(torch.from_numpy(values), dim=1) for values in (one, other))
    assert tag_divergence(one, other) == pytest.approx((p * (p / q).log()).sum(dim=1).numpy())
    assert tag_divergence(one, np.roll(other, 1, axis=0)).mean() > 5 * tag_divergence(one, other).mean()
