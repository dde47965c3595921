"""Distances between sets of embeddings `[n, D]`: how far one collection of sounds is from another.

    kad              unbiased squared maximum mean discrepancy x 100, Gaussian kernel (Chung et al. 2025): 0 if equal
    fad              distance of the Gaussians that fit best (Kilgour et al. 2019): above 0 for any finite sets
    fad_infinity     `fad` continued to infinitely many embeddings (Chong & Forsyth 2020)
    tag_divergence   Kullback-Leibler divergence of what a tagger hears in two clips

Everything is computed in float64.
"""

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

KAD_SCALE = 100.0
BANDWIDTH_FRAMES = 4096
"""The median distance of a larger set is that of so many of its embeddings, evenly spaced."""
ROWS_AT_ONCE = 1024

Embeddings = Float[np.ndarray, "n D"]


def kad(reference: Embeddings, generated: Float[np.ndarray, "m D"], bandwidth: float | None = None) -> float:
    """Return the kernel audio distance; without a `bandwidth`, it is the median distance within the reference.

    It is the function of kadtk, whose release 1.1 takes the median of the other set, unlike its repository and the
    paper.

    >>> import numpy as np
    >>> from solfa.ops import kad
    >>> noise = np.random.default_rng(0).normal(size=(2, 500, 8))
    >>> abs(kad(noise[0], noise[1])) < 0.5, kad(noise[0], noise[1] + 1) > 5
    (True, True)
    """
    alone = (np.arange(len(reference)), np.arange(len(generated)))
    sums = kernel_sums(reference, alone[0], generated, alone[1], bandwidth or median_distance(reference))
    return KAD_SCALE * sums.discrepancy(np.ones(len(reference)), np.ones(len(generated)))


def median_distance(frames: Embeddings) -> float:
    """Return the median of the distances between all embeddings, the lower one of two."""
    if len(frames) > BANDWIDTH_FRAMES:
        frames = frames[np.arange(BANDWIDTH_FRAMES) * len(frames) // BANDWIDTH_FRAMES]
    squares = squared_distances(frames, frames)[np.triu_indices(len(frames), 1)]
    if not squares.size:
        raise ValueError(f"reference: expected at least 2 embeddings, found {len(frames)}")
    middle = (len(squares) - 1) // 2
    found = float(np.sqrt(np.partition(squares, middle)[middle]))
    if found == 0.0:
        raise ValueError("reference: expected embeddings that differ, found that most are the same")
    return found


def squared_distances(one: Embeddings, other: Float[np.ndarray, "m D"]) -> Float[np.ndarray, "n m"]:
    """Return the squared distance of every pair."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    products = one @ other.T
    squares = np.square(one).sum(axis=1)[:, None] + np.square(other).sum(axis=1) - 2.0 * products
    return np.asarray(np.maximum(squares, 0.0))


class KernelSums:
    """The kernel between all recordings of two sets, summed over pairs of their frames.

    Pairs within one recording are left out: they are alike for another reason than that they come from one set, and
    with them two halves of one collection would seem to differ. With one frame a recording it is all pairs i != j.
    For the same reason `copies` leaves out pairs of a recording and its own copy in the other set; with them, decoded
    recordings would seem nearer to the originals than these are to each other.
    """

    def __init__(
        self,
        reference: Float[np.ndarray, "R R"],
        generated: Float[np.ndarray, "G G"],
        across: Float[np.ndarray, "R G"],
        reference_frames: Int[np.ndarray, " R"],
        generated_frames: Int[np.ndarray, " G"],
        copies: Bool[np.ndarray, "R G"] | None = None,
    ) -> None:
        self.across = across
        self.copies = np.zeros(across.shape, np.bool_) if copies is None else copies
        self.reference, self.generated = _without_diagonal(reference), _without_diagonal(generated)
        self.reference_frames = reference_frames.astype(np.float64)
        self.generated_frames = generated_frames.astype(np.float64)

    def discrepancy(self, reference_times: NDArray[np.float64], generated_times: NDArray[np.float64]) -> float:
        """Return the squared discrepancy if every recording occurs so many times; NaN if a set has only one."""
        ours = reference_times * self.reference_frames
        theirs = generated_times * self.generated_frames
        pairs, other_pairs = (np.square(frames.sum()) - np.square(frames).sum() for frames in (ours, theirs))
        pairs_between = ours.sum() * theirs.sum() - ours @ self.copies @ theirs
        if min(pairs, other_pairs, pairs_between) <= 0.0:
            return float("nan")
        within = reference_times @ self.reference @ reference_times / pairs
        other = generated_times @ self.generated @ generated_times / other_pairs
        between = reference_times @ np.where(self.copies, 0.0, self.across) @ generated_times / pairs_between
        return float(within + other - 2.0 * between)

    def between_halves(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
        """Return the squared discrepancy between two parts of the reference, which share no recording."""
        frames, kernel = self.reference_frames.astype(np.int64), self.reference
        parts = kernel[np.ix_(one, one)], kernel[np.ix_(other, other)], kernel[np.ix_(one, other)]
        return KernelSums(*parts, frames[one], frames[other]).discrepancy(np.ones(len(one)), np.ones(len(other)))

    def closeness(self) -> Float[np.ndarray, " G"]:
        """Return the mean kernel between each generated recording and the reference: 1 if equal, 0 if far away."""
        return np.asarray(self.across.sum(axis=0) / (self.reference_frames.sum() * self.generated_frames))


def kernel_sums(
    reference: Embeddings,
    reference_owners: Int[np.ndarray, " n"],
    generated: Float[np.ndarray, "m D"],
    generated_owners: Int[np.ndarray, " m"],
    bandwidth: float,
    copies: Bool[np.ndarray, "R G"] | None = None,
) -> KernelSums:
    """Sum a Gaussian kernel over the frames of each pair of recordings; owners count up from 0."""
    gamma = 1.0 / (2.0 * bandwidth**2)
    return KernelSums(
        _block_sums(reference, reference_owners, reference, reference_owners, gamma),
        _block_sums(generated, generated_owners, generated, generated_owners, gamma),
        _block_sums(reference, reference_owners, generated, generated_owners, gamma),
        np.bincount(reference_owners),
        np.bincount(generated_owners),
        copies,
    )


def _block_sums(
    one: NDArray[np.floating], owners: NDArray[np.integer], other: NDArray[np.floating], others: NDArray[np.integer],
    gamma: float,
) -> NDArray[np.float64]:  # fmt: skip
    # The frames of one recording are next to each other, so that they are summed in one pass.
    starts = np.flatnonzero(np.diff(others, prepend=-1))
    sums = np.zeros((int(owners.max()) + 1, len(starts)))
    for first in range(0, len(one), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        kernel = np.exp(-gamma * squared_distances(one[rows], other))
        begins = np.flatnonzero(np.diff(owners[rows], prepend=-1))
        sums[owners[rows][begins]] += np.add.reduceat(np.add.reduceat(kernel, starts, axis=1), begins, axis=0)
    return sums


def _without_diagonal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return matrix - np.diag(np.diagonal(matrix))


def fad(
    reference: Embeddings,
    generated: Float[np.ndarray, "m D"],
    reference_times: Float[np.ndarray, " n"] | None = None,
    generated_times: Float[np.ndarray, " m"] | None = None,
) -> float:
    """Return the Frechet distance of the Gaussians with the means and covariances of two sets.

    An embedding counts as often as `times` says. Of few embeddings most of the result is bias: compare sets of one size
    only, or use `kad`.

    >>> import numpy as np
    >>> from solfa.ops import fad
    >>> noise = np.random.default_rng(0).normal(size=(500, 4))
    >>> round(fad(noise, noise), 6), round(fad(noise, noise + 1), 6)
    (0.0, 4.0)
    """
    return _frechet(_gaussian(reference, reference_times), _gaussian(generated, generated_times))


_Gaussian = tuple[NDArray[np.float64], NDArray[np.float64]]
"""A mean, and a triangle R with R^T R as covariance."""


def _gaussian(frames: NDArray[np.floating], times: NDArray[np.floating] | None) -> _Gaussian:
    weights = np.ones(len(frames)) if times is None else times.astype(np.float64)
    total = weights.sum()
    mean = weights @ frames / total
    spread = (frames - mean) * np.sqrt(weights / max(total - 1.0, 1.0))[:, None]
    return mean, np.asarray(np.linalg.qr(spread, mode="r"))


def _frechet(one: _Gaussian, other: _Gaussian) -> float:
    # tr (A B)^(1/2) is the sum of the singular values of R Q^T if A = R^T R and B = Q^T Q: no square root of a matrix
    # that rounding has made indefinite.
    shared = np.linalg.svd(one[1] @ other[1].T, compute_uv=False).sum()
    spreads = np.square(one[1]).sum() + np.square(other[1]).sum()
    return float(np.square(one[0] - other[0]).sum() + spreads - 2.0 * shared)


def fad_infinity(
    reference: Embeddings,
    generated: Float[np.ndarray, "m D"],
    owners: Int[np.ndarray, " m"],
    seed: int = 0,
    num_sizes: int = 8,
) -> float:
    """Continue `fad` to infinitely many generated recordings: a line over 1/n, through sets of growing size.

    The reference stays as it is, with the bias that its own size brings. The line holds where there are several times
    as many embeddings as dimensions; with fewer, it takes out too much. NaN for fewer than 3 recordings.

    >>> import numpy as np
    >>> from solfa.ops import fad, fad_infinity
    >>> reference, generated = np.random.default_rng(0).normal(size=(2, 400, 4))
    >>> owners = np.arange(400) // 4  # four embeddings of each of 100 recordings
    >>> fad_infinity(reference, generated, owners) < fad(reference, generated)
    True
    """
    order = np.random.default_rng(seed).permutation(int(owners.max()) + 1)
    counts = np.unique(np.linspace(max(2, len(order) // 2), len(order), num_sizes).round().astype(int))
    if len(counts) < 2:
        return float("nan")
    place = np.argsort(order)[owners]
    fixed = _gaussian(reference, None)
    subsets = [generated[place < count] for count in counts]
    distances = [_frechet(fixed, _gaussian(subset, None)) for subset in subsets]
    inverse = np.array([1.0 / len(subset) for subset in subsets])
    return float(np.polyfit(inverse, np.array(distances), 1)[1])


def tag_divergence(reference: Float[np.ndarray, "B V"], generated: Float[np.ndarray, "B V"]) -> Float[np.ndarray, " B"]:
    """Return the divergence KL(reference || generated), in nats, of the tags of paired clips, given as log-odds.

    The log-odds of a clip become a distribution over the tags (softmax), as in AudioCraft's evaluation.

    >>> import numpy as np
    >>> from solfa.ops import tag_divergence
    >>> drums, piano = np.array([[4.0, 0.0]]), np.array([[0.0, 4.0]])
    >>> tag_divergence(drums, drums), tag_divergence(drums, piano).round(2)
    (array([0.]), array([3.86]))
    """
    one, other = (_log_softmax(values.astype(np.float64)) for values in (reference, generated))
    return np.asarray((np.exp(one) * (one - other)).sum(axis=1))


def _log_softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = values - values.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
