"""The exact interval for a probability, against its definition in rational numbers."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solfa.ops.binomial_interval import binomial_interval


def at_least(successes: int, trials: int, p: Fraction) -> Fraction:
    """Sum the definition, without rounding."""
    chosen = (math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(successes, trials + 1))
    return sum(chosen, Fraction(0))


@given(st.data())
def test_the_bounds_are_where_the_exact_tails_cross_half_of_the_rest(data: st.DataObject) -> None:
    trials = data.draw(st.integers(1, 40))
    successes = data.draw(st.integers(0, trials))
    confidence = data.draw(st.sampled_from([0.5, 0.9, 0.95, 0.999]))
    low, high = binomial_interval(successes, trials, confidence)
    rest = (1 - Fraction(confidence)) / 2
    # lgamma and exp of numbers up to 40 log 40 leave a relative error below 1e-11 in a tail, and its slope there is
    # at least that of a tail which grows from 0 to 1: a step of 1e-9 crosses.
    step = Fraction(1, 10**9)
    if successes:
        assert at_least(successes, trials, max(Fraction(0), Fraction(low) - step)) < rest
        assert at_least(successes, trials, Fraction(low) + step) > rest
    else:
        assert low == 0
    if successes < trials:
        fewer = [1 - at_least(successes + 1, trials, Fraction(high) + side) for side in (-step, step)]
        assert fewer[0] > rest > fewer[1]
    else:
        assert high == 1
    assert low <= successes / trials <= high


@given(st.integers(0, 30), st.integers(1, 30))
def test_failures_mirror_successes(successes: int, more: int) -> None:
    trials = successes + more
    mirrored = binomial_interval(trials - successes, trials)
    assert binomial_interval(successes, trials) == pytest.approx((1 - mirrored.high, 1 - mirrored.low), abs=1e-12)


def test_nothing_tried_is_nothing_known_and_all_of_n_has_a_closed_form() -> None:
    assert binomial_interval(0, 0) == (0, 1)
    for trials in (1, 10, 1000):
        assert binomial_interval(trials, trials).low == pytest.approx(0.025 ** (1 / trials), abs=1e-12)
    with pytest.raises(ValueError, match="3 of 2"):
        binomial_interval(3, 2)
