"""A run in the terminal: a bar while a stage runs, one line when it is done.

In a file or pipe there is no bar; a line every half minute says how far the stage is.
"""

import time
from collections.abc import Callable, Mapping

from solfa.solvers.watchers.protocol import Watcher, metric_words, step_unit, summary_line
from solfa.spelling import duration
from solfa.ui.terminal import console

LINE_SECONDS = 30.0
BAR_METRICS = 1
"""How many metrics the bar shows, to fit into 80 columns; the line that follows shows all."""


class TerminalWatcher(Watcher):
    """Shows progress with metrics, rate and time left, and sums up each stage."""

    def __init__(self, epochs: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._epochs, self._clock = epochs, clock
        self._bar: console.Bar | None = None
        self._stage, self._epoch = "", 0
        self._total: int | None = None
        self._first: tuple[int, float] | None = None
        self._last = (0, 0.0)
        self._said = clock()

    def stage_started(self, stage: str, epoch: int, total: int | None) -> None:
        self._stop_bar()
        self._stage, self._epoch, self._total = stage, epoch, total
        self._first, self._last, self._said = None, (0, 0.0), self._clock()
        if console.errors.is_terminal:
            self._bar = console.Bar(self._title(), step_unit(stage), has_total=total is not None)
            self._bar.start()
            self._bar(0, total, " ")

    def step(self, done: int, metrics: Mapping[str, float]) -> None:
        now = self._clock()
        # The count of a resumed stage does not start at 0, so measure the rate from the first step seen.
        self._first = self._first or (done, now)
        self._last = (done, now)
        if self._bar is not None:
            self._bar(done, self._total, "  ".join(self._words(metrics)))
        elif now - self._said >= LINE_SECONDS:
            self._said = now
            self._say("  ".join([self._title(), self._count(), *self._words(metrics), *self._time_left()]))

    def stage_finished(self, stage: str, epoch: int, metrics: Mapping[str, float], seconds: float) -> None:
        self._stop_bar()
        rate = self._rate()
        if rate is None and self._last[0] and seconds > 0:
            rate = self._last[0] / seconds
        self._say(summary_line(stage, epoch, self._epochs, metrics, seconds, rate))
        self._first, self._last = None, (0, 0.0)

    def closed(self) -> None:
        self._stop_bar()

    def _title(self) -> str:
        return f"{self._stage:<8}  epoch {self._epoch}" + (f"/{self._epochs}" if self._epochs else "")

    def _count(self) -> str:
        return f"{self._last[0]}" + (f"/{self._total}" if self._total else "") + f" {step_unit(self._stage)}"

    def _words(self, metrics: Mapping[str, float]) -> list[str]:
        rate = self._rate()
        return metric_words(metrics, BAR_METRICS) + ([] if rate is None else [f"{rate:.3g}/s"])

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

    def _stop_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _say(self, line: str) -> None:
        console.errors.print(line, soft_wrap=True, highlight=False, markup=False)
