"""What spans leave of a recording, and what counts as a span."""

import pytest

from solfa.encoding.coverage import gaps, held_share, told_span


def test_gaps_are_what_no_span_covers():
    assert gaps([]) == [(0.0, 1.0)]
    assert gaps([(0.0, 1.0)]) == []
    assert gaps([(0.5, 0.75), (0.25, 0.625)]) == [(0.0, 0.25), (0.75, 1.0)]
    assert gaps([(0.0, 0.25), (0.25, 0.5)]) == [(0.5, 1.0)]
    assert gaps([(0.0, 0.9), (0.1, 0.2)]) == [(0.9, 1.0)]


def test_what_spans_share_is_counted_once():
    assert held_share([(0.0, 0.5), (0.25, 0.75)]) == 0.75
    assert held_share([]) == 0 and held_share([(0.0, 1.0), (0.0, 1.0)]) == 1


@pytest.mark.parametrize(
    "found", [None, [], [0.5], [0.5, 0.5], [0.7, 0.2], [-0.1, 0.5], ["0", "1"], [0.0, float("nan")], [2, 3], {"a": 1}]
)
def test_timestamps_that_are_no_span_say_nothing(found):
    assert told_span({"timestamps": found}) is None


def test_timestamps_end_with_the_recording():
    assert told_span({"timestamps": [0, 1]}) == told_span({"timestamps": [0.0, 1.0000001]}) == (0.0, 1.0)
    assert told_span({}) is None
