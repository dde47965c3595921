"""Intervals from resampling: how far a weighted mean could have been off, had other recordings been drawn."""

import numpy as np
from jaxtyping import Float


def bootstrap_means(
    totals: Float[np.ndarray, "*kinds n"], weights: Float[np.ndarray, "n"], num_draws: int = 2000, seed: int = 0
) -> Float[np.ndarray, "*kinds draws"]:
    """Draw n of the n units with replacement, many times, and return each draw's mean: sum of totals over weights.

    Several kinds of totals are drawn together: their differences are those of the same units.

    >>> import numpy as np
    >>> from solfa.ops import bootstrap_means
    >>> means = bootstrap_means(np.array([1.0, 2.0, 3.0]), np.ones(3))
    >>> bool(means.min() == 1.0 and means.max() == 3.0)
    True
    """
    rng = np.random.default_rng(seed)
    picked = rng.integers(0, len(weights), (num_draws, len(weights)))
    sums: Float[np.ndarray, ...] = totals[..., picked].sum(-1) / weights[picked].sum(-1)
    return sums
