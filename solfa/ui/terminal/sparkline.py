"""A curve in one line of text: ▇▅▃▂▁."""

import math
from collections.abc import Sequence
from itertools import pairwise

BLOCKS = "▁▂▃▄▅▆▇█"
LEVEL = "▄"
"""What a flat curve looks like."""
ABSENT = " "
NOT_FINITE = "×"


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Draw values, scaled from lowest to highest, in at most `width` characters, each the mean of its share.

    None (not measured) leaves a gap; a share with nothing but NaN and infinities becomes a cross.
    """
    if width < 1:
        raise ValueError(f"width: expected at least 1, found {width}")
    means = [_mean(part) for part in _shares(values, min(width, len(values)))]
    finite = [mean for mean in means if mean is not None and math.isfinite(mean)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return "".join(_block(mean, low, high) for mean in means)


def _shares(values: Sequence[float | None], count: int) -> list[Sequence[float | None]]:
    bounds = [len(values) * place // count for place in range(count + 1)] if count else []
    return [values[start:stop] for start, stop in pairwise(bounds)]


def _mean(values: Sequence[float | None]) -> float | None:
    """Average the finite values; NaN if nothing measured is finite, None if nothing was measured."""
    measured = [value for value in values if value is not None]
    finite = [value for value in measured if math.isfinite(value)]
    if not finite:
        return math.nan if measured else None
    return sum(value / len(finite) for value in finite)  # divided first: a sum of large numbers could overflow


def _block(value: float | None, low: float, high: float) -> str:
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return NOT_FINITE
    span = high / 2 - low / 2  # halves, whose difference cannot overflow
    if span == 0:
        return LEVEL
    share = (value / 2 - low / 2) / span
    return BLOCKS[min(int(share * len(BLOCKS)), len(BLOCKS) - 1)]
