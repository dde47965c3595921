"""The pace of work that is heard of seldom."""

import pytest

from solfa.ui.terminal.pace import Pace


def test_nothing_is_known_before_the_first_report():
    pace = Pace(100.0, now=5.0)
    pace.report(0.0, now=5.0)
    assert (pace.rate, pace.reached(60.0), pace.seconds_left(60.0)) == (0.0, 0.0, None)


def test_it_goes_on_at_the_rate_so_far_and_the_time_left_counts_down():
    pace = Pace(100.0, now=0.0)
    pace.report(20.0, now=10.0)
    assert pace.rate == 2.0
    assert [pace.reached(now) for now in (10.0, 11.0, 15.0)] == [20.0, 22.0, 30.0]
    assert [pace.seconds_left(now) for now in (10.0, 11.0, 15.0)] == [40.0, 39.0, 35.0]


def test_it_never_runs_further_than_one_more_report_or_over_the_end():
    pace = Pace(50.0, now=0.0)
    pace.report(20.0, now=10.0)
    assert pace.reached(1e6) == 40.0
    pace.report(45.0, now=20.0)
    assert pace.reached(1e6) == 50.0 and pace.seconds_left(1e6) == pytest.approx(0.0)
