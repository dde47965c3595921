"""A few combinations that stand for all: each value of an axis meets each value of every other axis at least once."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def every_pair(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Choose rows of the product of all axes, greedily and always the same, until every pair of values has met.

    The first row has the first value of every axis, the last one has the last.
    """
    places = list(product(*(range(len(axis)) for axis in axes)))
    chosen = [places[0], places[-1]]
    met = _pairs_of(places[0]) | _pairs_of(places[-1])
    while new := _pairs_of(best := max(places, key=lambda row: len(_pairs_of(row) - met))) - met:
        met |= new
        chosen.insert(-1, best)
    return [tuple(axis[place] for axis, place in zip(axes, row, strict=True)) for row in chosen]


def _pairs_of(row: Sequence[int]) -> set[tuple[tuple[int, int], ...]]:
    return set(combinations(enumerate(row), 2))
