"""Statistics of a dataset: codebook usage, moments of latents, lengths of clips.

Everything streams: memory depends on the codebooks or channels, never on the number of clips.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solfa.errors import StoreError

FRAMES_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class CodeStatistics:
    """How often each entry of each codebook occurs."""

    counts: NDArray[np.int64]
    """[K, codebook_size]."""

    @property
    def num_codebooks(self) -> int:
        return int(self.counts.shape[0])

    @property
    def codebook_size(self) -> int:
        return int(self.counts.shape[1])

    @property
    def num_frames(self) -> int:
        return int(self.counts[0].sum()) if len(self.counts) else 0

    @property
    def used_share(self) -> NDArray[np.float64]:
        """Share of the entries that occur at all, per codebook."""
        return np.asarray((self.counts > 0).mean(axis=1))

    @property
    def entropy_bits(self) -> NDArray[np.float64]:
        """Entropy of the entries, per codebook; at most log2(codebook_size)."""
        totals = np.maximum(self.counts.sum(axis=1, keepdims=True), 1)
        shares = self.counts / totals
        terms = np.where(shares > 0, shares * np.log2(np.where(shares > 0, shares, 1.0)), 0.0)
        return np.asarray(np.abs(terms.sum(axis=1)))

    @property
    def perplexity(self) -> NDArray[np.float64]:
        """The number of equally frequent entries with the same entropy, per codebook."""
        return np.asarray(2.0**self.entropy_bits)


@dataclass(frozen=True, eq=False)
class LatentStatistics:
    """Moments of each latent channel over its finite values; NaN if there are none."""

    num_values: NDArray[np.int64]
    num_nonfinite: NDArray[np.int64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]

    @property
    def num_channels(self) -> int:
        return len(self.mean)


@dataclass(frozen=True, eq=False)
class LengthHistogram:
    """A histogram of clip lengths."""

    edges_seconds: NDArray[np.float64]
    """One more than there are bins; a bin includes its lower edge but not its upper one."""
    counts: NDArray[np.int64]


def code_statistics(arrays: Iterable[NDArray[Any]], codebook_size: int) -> CodeStatistics:
    """Count the codes of many clips `[T, K]`.

    >>> import solfa
    >>> from solfa.evaluate import code_statistics
    >>> dataset = solfa.open_dataset("music.solfa")
    >>> statistics = code_statistics((clip.array for clip in dataset), dataset.info.array.codebook_size)
    >>> statistics.num_codebooks, statistics.num_frames, bool((statistics.used_share > 0).all())
    (8, 5588, True)
    """
    counts: NDArray[np.int64] | None = None
    for block in _blocks(arrays):
        if counts is None:
            counts = np.zeros((block.shape[1], codebook_size), np.int64)
        for codebook, column in enumerate(block.T):
            if column.size and not (column.min() >= 0 and column.max() < codebook_size):
                wrong = column[(column < 0) | (column >= codebook_size)][0]
                raise StoreError(
                    f"codebook {codebook}: expected codes from 0 to {codebook_size - 1}, found {wrong}; "
                    "run `solfa verify` on the dataset"
                )
            counts[codebook] += np.bincount(column, minlength=codebook_size)
    return CodeStatistics(np.zeros((0, codebook_size), np.int64) if counts is None else counts)


def latent_statistics(arrays: Iterable[NDArray[Any]]) -> LatentStatistics:
    """Measure the latents of many clips `[T, Z]`.

    Blocks are merged with the update of Chan, Golub & LeVeque (1979), which stays accurate where a sum of squares
    would cancel.

    >>> import numpy as np
    >>> from solfa.evaluate import latent_statistics
    >>> clips = [np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([[4.0, 1.0]])]  # [T, Z] each
    >>> statistics = latent_statistics(clips)
    >>> statistics.mean, statistics.maximum
    (array([2., 1.]), array([4., 1.]))
    """
    total: _Moments | None = None
    nonfinite: NDArray[np.int64] = np.zeros(0, np.int64)
    for block in _blocks(arrays):
        finite = np.isfinite(block)
        moments = _block_moments(block.astype(np.float64), finite)
        nonfinite = (0 if total is None else nonfinite) + (~finite).sum(axis=0)
        total = moments if total is None else _merged(total, moments)
    if total is None:
        empty = np.zeros(0)
        return LatentStatistics(np.zeros(0, np.int64), nonfinite, empty, empty, empty, empty)
    some = total.count > 0
    std = np.sqrt(total.squares / np.maximum(total.count, 1))
    columns = (np.where(some, values, np.nan) for values in (total.mean, std, total.minimum, total.maximum))
    return LatentStatistics(total.count, nonfinite, *columns)


@dataclass(frozen=True, eq=False)
class _Moments:
    count: NDArray[np.int64]
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    """Sum of the squared distances from the mean."""
    minimum: NDArray[np.float64]
    maximum: NDArray[np.float64]


def _block_moments(block: NDArray[np.float64], finite: NDArray[np.bool_]) -> _Moments:
    count = finite.sum(axis=0)
    mean = np.where(finite, block, 0.0).sum(axis=0) / np.maximum(count, 1)
    distance = np.where(finite, block - mean, 0.0)
    return _Moments(
        count,
        mean,
        (distance**2).sum(axis=0),
        np.where(finite, block, np.inf).min(axis=0, initial=np.inf),
        np.where(finite, block, -np.inf).max(axis=0, initial=-np.inf),
    )


def _merged(one: _Moments, other: _Moments) -> _Moments:
    count = one.count + other.count
    share = other.count / np.maximum(count, 1)
    step = other.mean - one.mean
    return _Moments(
        count,
        one.mean + step * share,
        one.squares + other.squares + step**2 * one.count * share,
        np.minimum(one.minimum, other.minimum),
        np.maximum(one.maximum, other.maximum),
    )


def _blocks(arrays: Iterable[NDArray[Any]]) -> Iterator[NDArray[Any]]:
    """Regroup clips into blocks of many frames: counting clip by clip would touch a whole codebook for a few frames."""
    waiting: list[NDArray[Any]] = []
    num_waiting = 0
    width: int | None = None
    for array in arrays:
        width = array.shape[1] if width is None else width
        if array.shape[1] != width:
            raise StoreError(f"expected arrays [T, {width}] as in the first clip, found {list(array.shape)}")
        for start in range(0, max(1, len(array)), FRAMES_AT_ONCE):
            piece = array[start : start + FRAMES_AT_ONCE]
            waiting.append(piece)
            num_waiting += len(piece)
            if num_waiting >= FRAMES_AT_ONCE // width or len(waiting) >= 4096:
                yield np.concatenate(waiting)
                waiting, num_waiting = [], 0
    if waiting:
        yield np.concatenate(waiting)


def length_histogram(seconds: NDArray[np.float64], max_bins: int = 40) -> LengthHistogram:
    """Sort lengths into at most `max_bins` bins of a round width (1, 2 or 5 times a power of ten), from zero.

    >>> import numpy as np
    >>> from solfa.evaluate import length_histogram
    >>> length_histogram(np.array([1.0, 2.5, 2.9, 7.0]), max_bins=5)
    LengthHistogram(edges_seconds=array([0., 2., 4., 6., 8.]), counts=array([1, 2, 0, 1]))
    """
    lengths = np.asarray(seconds, np.float64)
    if not lengths.size or not lengths.max() > 0:
        return LengthHistogram(np.array([0.0, 1.0]), np.array([lengths.size], np.int64))
    longest = float(lengths.max())
    width = next(width for width in _round_numbers(longest / max_bins) if _bin_of(longest, width) < max_bins)
    places = np.asarray(_bin_of(lengths, width), np.int64)
    edges = np.arange(int(places.max()) + 2, dtype=np.float64) * width
    return LengthHistogram(edges, np.bincount(places, minlength=len(edges) - 1))


def _bin_of(seconds: NDArray[np.float64] | float, width: float) -> Any:
    # Lengths are often whole seconds, and division may round them to either side of an edge.
    return np.floor(np.asarray(seconds) / width + 1e-9)


def _round_numbers(at_least: float) -> Iterator[float]:
    power = 10.0 ** np.floor(np.log10(at_least))
    while True:
        yield from (float(step * power) for step in (1, 2, 5))
        power *= 10.0
