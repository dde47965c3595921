"""The rest of a run is its updates and the stages that are still to come."""

import pytest

from solfa.ui.terminal.run_clock import RunClock, RunShape


def test_updates_count_at_the_measured_rate() -> None:
    clock = RunClock(RunShape(10, 100, {}))
    assert clock.seconds_left(1, 0, 2.0) == 500
    assert clock.seconds_left(10, 90, 2.0) == 5


@pytest.mark.parametrize("epochs", [1, 5, 7, 10])
@pytest.mark.parametrize("every", [1, 2, 5, 20])
def test_stages_count_as_often_as_they_come(epochs: int, every: int) -> None:
    clock = RunClock(RunShape(epochs, 1, {"generate": every}))
    clock.finished("generate", 100.0)
    clock.finished("generate", 10.0)
    for epoch in range(1, epochs + 1):
        still = sum(later % every == 0 or later == epochs for later in range(epoch, epochs + 1))
        assert clock.seconds_left(epoch, 1, 1.0) == epochs - epoch + 10 * still
