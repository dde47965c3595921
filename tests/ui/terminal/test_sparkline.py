"""A curve in one line keeps its shape, its gaps and its length."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solfa.ui.terminal.sparkline import ABSENT, BLOCKS, LEVEL, NOT_FINITE, sparkline

finite = st.floats(allow_nan=False, allow_infinity=False)
anything = st.none() | st.floats()
widths = st.integers(1, 50)


@given(st.lists(anything, max_size=200), widths)
def test_it_is_as_long_as_it_may_be_and_no_longer_than_the_values(values, width):
    drawn = sparkline(values, width)
    assert len(drawn) == min(width, len(values))
    assert set(drawn) <= {*BLOCKS, ABSENT, NOT_FINITE}


@given(st.lists(finite, min_size=1, max_size=50))
def test_higher_values_never_stand_lower(values):
    drawn = [BLOCKS.index(block) for block in sparkline(values, len(values))]
    by_value = [level for _, level in sorted(zip(values, drawn, strict=True))]
    assert by_value == sorted(by_value)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_the_lowest_and_the_highest_take_the_whole_height(values):
    if max(values) - min(values) < 1e-300:
        return
    drawn = sparkline(values, len(values))
    assert drawn[values.index(min(values))] == BLOCKS[0] and drawn[values.index(max(values))] == BLOCKS[-1]


@given(st.lists(st.none() | st.integers(-999, 999).map(float) | st.just(math.nan)), st.integers(-3, 3), widths)
def test_a_scale_by_a_power_of_two_changes_nothing(values, power, width):
    scaled = [None if value is None else value * 2.0**power for value in values]
    assert sparkline(scaled, width) == sparkline(values, width)


@given(st.lists(st.none() | finite, min_size=1, max_size=20), st.sampled_from([1, 2, 4]))
def test_downsampling_takes_means(values, repeats):
    repeated = [value for value in values for _ in range(repeats)]
    equal = sparkline([value if value is None else round(value) % 64 for value in values], len(values))
    assert sparkline([value if value is None else round(value) % 64 for value in repeated], len(values)) == equal
    assert sparkline([0, 8, 4, 4, 0, 0, 8, 8], 4) == "▅▅▁█"


@given(finite, st.integers(1, 20))
def test_what_does_not_move_is_level(value, count):
    assert sparkline([value] * count, count) == LEVEL * count


def test_gaps_and_faults_are_seen():
    assert sparkline([1.0, None, math.nan, math.inf, 2.0], 9) == f"▁{ABSENT}{NOT_FINITE}{NOT_FINITE}█"
    assert sparkline([1.0, math.nan, None, None, math.nan, None, 2.0, None], 4) == f"▁{ABSENT}{NOT_FINITE}█"
    assert sparkline([None, None], 2) == ABSENT * 2 and sparkline([math.nan], 3) == NOT_FINITE
    assert sparkline([], 5) == ""
    assert sparkline([-1.7e308, 1.7e308, 1.7e308, 1.7e308], 2) == "▁█"


def test_a_width_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"width: .*found 0"):
        sparkline([1.0], 0)
