"""A run in the terminal: a bar while a stage runs, one line when it is done.

In a file or pipe there is no bar; a line every half minute says how far the stage is.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from solfa.environment.memory import peak_memory
from solfa.solvers.watchers.protocol import Watcher, metric_words, step_unit, summary_line
from solfa.spelling import duration, size
from solfa.ui.terminal import console
from solfa.ui.terminal.run_clock import RunClock, RunShape

LINE_SECONDS = 30.0
TIMED_SECONDS = 5.0
"""How long updates are timed before the terminal says how long the run will take."""
BAR_METRICS = 1
"""How many metrics the bar shows, to fit into 80 columns; the line that follows shows all."""
WIDE = 115
"""Columns that a whole bar takes; a narrower terminal gets a slim one."""


class TerminalWatcher(Watcher):
    """Shows progress with metrics, rate and time left of the stage and of the run, and sums up each stage."""

    def __init__(
        self,
        epochs: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        shape: RunShape | None = None,
    ) -> None:
        self._epochs, self._clock = epochs, clock
        self._run = None if shape is None else RunClock(shape)
        self._told_time = False
        self._bar: console.Bar | None = None
        self._stage, self._epoch = "", 0
        self._total: int | None = None
        self._metrics: Mapping[str, float] = {}
        self._first: tuple[int, float] | None = None
        self._last = (0, 0.0)
        self._said = clock()

    def planned(self, facts: Sequence[tuple[str, str]]) -> None:
        width = max((len(name) for name, _ in facts), default=0)
        for name, value in facts:
            self._say(f"{name:<{width}}  {value}")

    def started(self, folder: Path, hyper_parameters: Mapping[str, Any]) -> None:
        # Only now, because before this the run may be refused, and then nothing stays in the folder.
        self._say(f"experiment {folder.name} in {folder}")

    def stage_started(self, stage: str, epoch: int, total: int | None) -> None:
        self._stop_bar()
        self._stage, self._epoch, self._total, self._metrics = stage, epoch, total, {}
        self._first, self._last, self._said = None, (0, 0.0), self._clock()
        if console.errors.is_terminal:
            slim = console.errors.width < WIDE
            title = f"{stage} {epoch}/{self._epochs}" if slim and self._epochs else self._title()
            self._bar = console.Bar(title, step_unit(stage), has_total=total is not None, slim=slim)
            self._bar.start()
            self._bar(0, total, " ")

    def step(self, done: int, metrics: Mapping[str, float]) -> None:
        self._metrics = metrics
        self.tick(done)

    def tick(self, done: int) -> None:
        now = self._clock()
        # The count of a resumed stage does not start at 0, so measure the rate from the first step seen.
        self._first = self._first or (done, now)
        self._last = (done, now)
        self._tell_time(now)
        if self._bar is not None:
            self._bar(done, self._total, "  ".join([*self._words(), *self._run_left(rough)]) or " ")
        elif now - self._said >= LINE_SECONDS:
            self._said = now
            words = [self._title(), self._count(), *self._words(), *self._time_left(), *self._run_left()]
            self._say("  ".join(words))

    def stage_finished(self, stage: str, epoch: int, metrics: Mapping[str, float], seconds: float) -> None:
        self._stop_bar()
        if self._run is not None:
            self._run.finished(stage, seconds)
        rate = self._rate()
        if rate is None and self._last[0] and seconds > 0:
            rate = self._last[0] / seconds
        self._say(summary_line(stage, epoch, self._epochs, metrics, seconds, rate))
        self._first, self._last = None, (0, 0.0)

    def stopping(self, sentence: str) -> None:
        self._say(sentence)

    def closed(self) -> None:
        self._stop_bar()

    def _title(self) -> str:
        return f"{self._stage:<8}  epoch {self._epoch}" + (f"/{self._epochs}" if self._epochs else "")

    def _count(self) -> str:
        return f"{self._last[0]}" + (f"/{self._total}" if self._total else "") + f" {step_unit(self._stage)}"

    def _words(self) -> list[str]:
        rate = self._rate()
        return metric_words(self._metrics, BAR_METRICS) + ([] if rate is None else [f"{rate:.3g}/s"])

    def _rate(self) -> float | None:
        """Measure steps per second; a single step says nothing."""
        if self._first is None:
            return None
        steps, seconds = self._last[0] - self._first[0], self._last[1] - self._first[1]
        return steps / seconds if steps > 0 and seconds > 0 else None

    def _time_left(self) -> list[str]:
        rate = self._rate()
        if rate is None or self._total is None:
            return []
        return [f"ETA {duration((self._total - self._last[0]) / rate)}"]

    def _run_seconds(self) -> float | None:
        """Estimate how long the rest of the run takes, while it trains."""
        rate = self._rate()
        if self._run is None or rate is None or self._stage != "train":
            return None
        return self._run.seconds_left(self._epoch, self._last[0], rate)

    def _run_left(self, spell: Callable[[float], str] = duration) -> list[str]:
        seconds = self._run_seconds()
        return [] if seconds is None else [f"run {spell(seconds)}"]

    def _tell_time(self, now: float) -> None:
        """Say once how long the run will take, as soon as a few updates have been timed."""
        seconds = self._run_seconds()
        if self._told_time or not seconds or self._first is None or now - self._first[1] < TIMED_SECONDS:
            return
        self._told_time = True
        each = (now - self._first[1]) / (self._last[0] - self._first[0])
        self._say(f"{duration(each)} per update, {size(peak_memory())} in use: {duration(seconds)} to go")

    def _stop_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _say(self, line: str) -> None:
        console.errors.print(line, soft_wrap=True, highlight=False, markup=False)


def rough(seconds: float) -> str:
    """Write a duration in one unit, for what is only an estimate: `40 s`, `25 min`, `3.5 h`, `12 days`."""
    for limit, unit, name in ((100, 1, "s"), (6000, 60, "min"), (360_000, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.{1 if name == 'h' and seconds < 36_000 else 0}f} {name}"
    return f"{seconds / 86400:,.0f} days"
