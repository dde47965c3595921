"""The terminal shows one line per stage, a bar where somebody looks, and lines now and then where nobody does."""

import io
import re

import pytest
from rich.console import Console

from solfa.ui.terminal import console
from solfa.ui.terminal.run_clock import RunShape
from solfa.ui.terminal.training_view import LINE_SECONDS, TerminalWatcher, rough


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch):
    """Replace the console of faults by one that writes into memory."""

    def make(is_terminal: bool) -> io.StringIO:
        file = io.StringIO()
        monkeypatch.setattr(console, "errors", Console(file=file, force_terminal=is_terminal, width=150))
        return file

    return make


def go(watcher: TerminalWatcher, clock: Clock, steps: range, total: int | None = 100, seconds: float = 0.5) -> None:
    watcher.stage_started("train", 3, total)
    for done in steps:
        clock.now += seconds
        watcher.step(done, {"loss": 5.0 - done / 100, "ppl": 10.0, "ce_0": 1.0})
    watcher.stage_finished("train", 3, {"loss": 2.3141, "ppl": 10.12, "lr": 3e-4}, 41.2)


def test_a_stage_leaves_one_line(output):
    file, clock = output(False), Clock()
    go(TerminalWatcher(10, clock), clock, range(10, 50, 10))
    assert file.getvalue() == "train     epoch 3/10  loss 2.314  ppl 10.1  lr 3.0e-04  20.0 updates/s  41.2 s\n"


def test_a_file_gets_a_line_every_half_a_minute(output):
    file, clock = output(False), Clock()
    go(TerminalWatcher(None, clock), clock, range(1, 101), seconds=1.0)
    *lines, _ = file.getvalue().splitlines()
    assert len(lines) == 100 // LINE_SECONDS
    assert lines[0] == ("train     epoch 3  30/100 updates  loss 4.700  1/s  ETA 1 min 10 s")


def test_the_rate_of_a_resumed_stage_counts_only_what_was_done_here(output):
    file, clock = output(False), Clock()
    go(TerminalWatcher(10, clock), clock, range(9000, 9005), total=10_000, seconds=0.25)
    assert "  4.000 updates/s  " in file.getvalue()


def test_a_single_step_is_rated_by_the_time_of_the_stage(output):
    file, clock = output(False), Clock()
    go(TerminalWatcher(10, clock), clock, range(412, 413))
    assert "  10.0 updates/s  " in file.getvalue()


def test_a_terminal_gets_a_bar_with_metrics_which_is_gone_afterwards(output):
    file, clock = output(True), Clock()
    watcher = TerminalWatcher(10, clock)
    watcher.stage_started("train", 3, 100)
    for done in (10, 20, 100):
        clock.now += 1.0
        watcher.step(done, {"loss": 4.5, "ppl": 90.0})
    assert watcher._bar is not None
    watcher._bar._progress.refresh()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())
    assert "train     epoch 3/10" in shown and "100/100 updates" in shown
    assert "loss 4.500  45/s" in shown and "ETA" in shown
    watcher.stage_finished("train", 3, {"loss": 4.5}, 3.0)
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue().splitlines()[-1])
    assert last.strip() == "train     epoch 3/10  loss 4.500  45.0 updates/s  3.00 s"
    assert "\x1b[2K" in file.getvalue()


def test_the_bar_is_taken_away_when_the_run_fails(output):
    output(True)
    watcher = TerminalWatcher(10)
    watcher.stage_started("valid", 1, None)
    watcher.step(1, {})
    bar = watcher._bar
    assert bar is not None and bar._progress.live.is_started
    watcher.closed()
    assert not bar._progress.live.is_started


def test_markup_in_names_is_shown_as_it_is(output):
    file, clock = output(False), Clock()
    watcher = TerminalWatcher(10, clock)
    watcher.stage_started("valid", 1, 1)
    watcher.stage_finished("valid", 1, {"[bold]fad[/]": 1.0}, 1.0)
    assert "[bold]fad[/] 1.000" in file.getvalue()


def test_the_time_of_the_whole_run_is_said_once_and_then_beside_that_of_the_epoch(output):
    file, clock = output(False), Clock()
    watcher = TerminalWatcher(4, clock, RunShape(4, 100, {"valid": 1}))
    go(watcher, clock, range(1, 101), seconds=1.0)
    watcher.stage_finished("valid", 3, {"loss": 2.0}, 7.0)
    go(watcher, clock, range(1, 41), seconds=1.0)
    lines = file.getvalue().splitlines()
    (told,) = [line for line in lines if "per update" in line]
    assert "1.00 s per update" in told and "in use" in told and "3 min 14 s" in told  # 94 + 100 updates
    assert "ETA 1 min 10 s  run 2 min 50 s" in lines[1]
    assert "run 3 min 04 s" in lines[-2]  # two more validations of 7 s


def test_nothing_is_said_of_the_time_of_a_run_that_is_over(output):
    file, clock = output(False), Clock()
    watcher = TerminalWatcher(4, clock, RunShape(3, 2, {}))
    go(watcher, clock, range(1, 3), seconds=10.0)
    assert "per update" not in file.getvalue()


def test_every_step_moves_the_bar_though_few_are_measured(output):
    file, clock = output(True), Clock()
    watcher = TerminalWatcher(10, clock)
    watcher.stage_started("valid", 3, 100)
    for done in range(1, 8):
        clock.now += 1.0
        watcher.tick(done)
    assert watcher._bar is not None
    watcher._bar._progress.refresh()
    assert "7/100 batches" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())
    watcher.closed()


@pytest.mark.parametrize("width", [80, 150])
def test_the_bar_fits_into_the_terminal(output, width):
    file, clock = output(True), Clock()
    console.errors.width = width
    watcher = TerminalWatcher(20, clock, RunShape(20, 1000, {}))
    watcher.stage_started("train", 12, 1000)
    for done in (400, 500):
        clock.now += 60.0
        watcher.step(done, {"loss": 4.5})
    assert watcher._bar is not None
    watcher._bar._progress.refresh()
    *_, shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue()).rstrip().splitlines()
    watcher.closed()
    assert "…" not in shown and len(shown) <= width
    assert re.search(r"train .*12/20.* 500/1000 updates loss 4\.500 .*1\.67/s .*run 85 min .*ETA", shown)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(7, "7 s"), (95, "95 s"), (1500, "25 min"), (9000, "2.5 h"), (90_000, "25 h"), (1e6, "12 days")],
)
def test_an_estimate_is_written_in_one_unit(seconds, text):
    assert rough(seconds) == text


def test_the_plan_and_a_signal_are_lines(output):
    file = output(False)
    watcher = TerminalWatcher(10)
    watcher.planned([("solver", "lm"), ("parameters", "12")])
    watcher.stopping("stopping; again to quit now")
    assert file.getvalue().splitlines() == ["solver      lm", "parameters  12", "stopping; again to quit now"]
