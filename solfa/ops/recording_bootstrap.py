"""How sure a number is: draw recordings again, with replacement, and see how far it moves.

Recordings are drawn, never frames: the frames of one recording are alike, and drawing them one by one would make
intervals too narrow by as much.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

LEVEL = 0.95


class Interval(NamedTuple):
    """Between which numbers another lies, 19 times out of 20 unless it says otherwise; NaN where nobody can tell."""

    low: float
    high: float


def draw_times(num_recordings: int, num_draws: int, seed: int) -> Float[np.ndarray, "draws R"]:
    """Draw as many recordings as there are, with replacement, and count how often each occurs.

    Sets of one size get the same counts: two runs that were given the same prompts are drawn prompt by prompt.
    """
    rng = np.random.default_rng([seed, num_recordings])
    chances = np.full(num_recordings, 1.0 / num_recordings)
    return rng.multinomial(num_recordings, chances, size=num_draws).astype(np.float64)


def interval_of(value: float, draws: NDArray[np.float64], level: float = LEVEL) -> Interval:
    """Turn the draws around: by how much they exceed the value is by how much the value exceeds the truth.

    For a distance that is too large for few recordings (`fad`), this takes out most of what it is too large by.
    """
    known = draws[np.isfinite(draws)]
    if len(known) < len(draws) / 2 or not np.isfinite(value):
        return Interval(float("nan"), float("nan"))
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(2 * value - high), float(2 * value - low))


def mean_draws(
    values: Float[np.ndarray, "*kinds R"],
    num_draws: int,
    seed: int,
    weights: Float[np.ndarray, " R"] | None = None,
) -> Float[np.ndarray, "*kinds draws"]:
    """Draw the mean of a number that every recording has; several kinds are drawn together, from the same recordings.

    >>> import numpy as np
    >>> from solfa.ops import mean_draws
    >>> means = mean_draws(np.array([1.0, 2.0, 3.0]), num_draws=1000, seed=0)
    >>> bool(means.min() == 1.0 and means.max() == 3.0)
    True
    """
    times = draw_times(values.shape[-1], num_draws, seed)
    weights = np.ones(values.shape[-1]) if weights is None else weights
    return np.asarray((values * weights) @ times.T / (times @ weights))


def halves(
    num_recordings: int, num_splits: int, seed: int
) -> list[tuple[Int[np.ndarray, " a"], Int[np.ndarray, " b"]]]:
    """Split recordings into two halves at random, several times."""
    rng = np.random.default_rng([seed, num_recordings])
    orders = (rng.permutation(num_recordings) for _ in range(num_splits))
    return [(order[: num_recordings // 2], order[num_recordings // 2 :]) for order in orders]


def split_floor(
    num_recordings: int, distance: Callable[[NDArray[np.int64], NDArray[np.int64]], float], num_splits: int, seed: int
) -> float:
    """Average a distance between two halves of one collection: what is no difference at all."""
    if num_recordings < 4:
        return float("nan")
    return float(np.mean([distance(one, other) for one, other in halves(num_recordings, num_splits, seed)]))
