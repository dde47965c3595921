"""Curves: whatever was measured is inside the box, and what was not leaves no mark."""

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from solfa.studio.runs.curves import Line, line_chart, metric_charts, small_chart

VALUES = st.lists(st.none() | st.floats(), max_size=12)


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_lines_stay_in_the_box(lines: list[list[float | None]]) -> None:
    drawn = str(line_chart("loss", [Line(str(index), values) for index, values in enumerate(lines)]))
    finite = [[value for value in values if value is not None and math.isfinite(value)] for values in lines]
    paths = re.findall(r' d="([^"]+)"', drawn)
    assert len(paths) == sum(bool(found) for found in finite)
    for path, found in zip(paths, (found for found in finite if found), strict=True):
        points = [tuple(map(float, point.partition("h")[0].split())) for point in path.removeprefix("M").split("L")]
        assert len(points) == len(found)
        assert all(0.0 <= x <= 100.0 and 0.0 <= y <= 100.0 for x, y in points)
        heights = {value: y for (_, y), value in zip(points, found, strict=True)}
        ordered = sorted(heights)
        assert [heights[value] for value in ordered] == sorted(heights.values(), reverse=True)  # up is more


def test_nothing_measured_is_said_in_words() -> None:
    assert "nothing measured" in str(line_chart("loss", [Line("train", [None, math.nan])]))
    assert str(small_chart([None])) == ""


def test_one_epoch_is_a_dot_that_can_be_seen() -> None:
    assert all(
        'class="line dot line-0"' in str(drawn) for drawn in (line_chart("", [Line("", [1.0])]), small_chart([1.0]))
    )
    assert "dot" not in str(small_chart([1.0, 2.0]))


def test_how_many_clips_were_generated_is_no_curve() -> None:
    history = [{"train": {"loss": 1.0}, "generate": {"clips": 2.0, "bits_per_sample": 3.0}}]
    assert [name for name, _ in metric_charts(history)] == ["loss", "bits_per_sample"]
