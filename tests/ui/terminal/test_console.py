"""The progress bar: what it says of the time that is left."""

import pytest

from solfa.ui.terminal.console import Bar


def test_a_bar_that_was_full_counts_the_next_part_from_its_beginning() -> None:
    bar = Bar("evaluating", "clips")
    task = bar._progress.tasks[0]
    bar(6, 6, "embedding")
    assert task.finished and task.time_remaining == 0
    now = task.get_time()
    task.get_time = bar._progress.get_time = lambda: now
    bar(0, 6, "comparing copies")
    now += 10
    bar(1, 6, "comparing copies")
    now += 10
    bar(2, 6, "comparing copies")
    assert not task.finished and bar.elapsed == 20
    assert task.time_remaining == pytest.approx(40)
