"""How sure a count makes one: the exact interval for a probability, after so many successes in so many trials.

Clopper and Pearson (1934): the interval of all p for which neither "k or more of n" nor "k or fewer of n" is less
likely than half of what is left of the confidence. It holds p at least as often as it says, for every n and p.
"""

import math
from collections.abc import Callable

from solfa.ops.recording_bootstrap import Interval

_HALVINGS = 64
"""After so many halvings of [0, 1], the float64 numbers between the bounds are used up."""


def binomial_interval(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Return the exact (Clopper-Pearson) interval for the probability of a success.

    >>> from solfa.ops.binomial_interval import binomial_interval
    >>> low, high = binomial_interval(8, 10)
    >>> round(low, 4), round(high, 4)
    (0.4439, 0.9748)
    """
    if not 0 <= successes <= trials or not 0 < confidence < 1:
        raise ValueError(
            f"expected 0 <= successes <= trials and a confidence between 0 and 1, found {successes} of {trials} and "
            f"{confidence}"
        )
    rest = (1 - confidence) / 2
    low, high = 0.0, 1.0
    if successes > 0:  # the larger p, the likelier are many successes
        low = _root(lambda p: tail(successes, trials, p) - rest)
    if successes < trials:  # and the less likely are many failures, which have the probability 1 - p
        high = 1 - _root(lambda q: tail(trials - successes, trials, q) - rest)
    return Interval(low, high)


def tail(at_least: int, trials: int, p: float) -> float:
    """Return the probability of at least so many successes."""
    if at_least <= 0 or p >= 1:
        return 1.0
    if p <= 0:
        return 0.0
    whole, yes, no = math.lgamma(trials + 1), math.log(p), math.log1p(-p)
    terms = (
        math.exp(whole - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * yes + (trials - k) * no)
        for k in range(at_least, trials + 1)
    )
    return min(1.0, math.fsum(terms))


def _root(increasing: Callable[[float], float]) -> float:
    """Find where an increasing function of [0, 1] crosses zero, by halving."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if increasing(middle) > 0 else (middle, high)
    return (low + high) / 2
