"""A run in its log: one line when a stage is done, and one every half minute in between."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from solfa.solvers.watchers.protocol import Watcher, metric_words, step_unit, summary_line
from solfa.xp.log_files import FILE_ONLY

LINE_SECONDS = 30.0

logger = logging.getLogger(__name__)


class LoggedStages(Watcher):
    """Logs what happens; `solfa info -t` follows the log and the terminal shows it."""

    def __init__(self, epochs: int, *, on_terminal: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._epochs, self._clock = epochs, clock
        self._extra = None if on_terminal else FILE_ONLY
        self._place, self._total, self._unit = "", "", ""
        self._first: tuple[int, float] | None = None
        self._last = (0, 0.0)
        self._said = clock()

    def planned(self, facts: Sequence[tuple[str, str]]) -> None:
        for name, value in facts:
            logger.info("%s: %s", name, value, extra=self._extra)

    def stage_started(self, stage: str, epoch: int, total: int | None) -> None:
        self._place, self._unit = f"{stage:<8}  epoch {epoch}/{self._epochs}", step_unit(stage)
        self._total = "" if total is None else f"/{total}"
        self._first, self._said = None, self._clock()

    def step(self, done: int, metrics: Mapping[str, float]) -> None:
        now = self._clock()
        # The count of a resumed stage does not start at 0, so measure the rate from the first step seen.
        self._first, self._last = self._first or (done, now), (done, now)
        if now - self._said >= LINE_SECONDS:
            self._said = now
            words = [self._place, f"{done}{self._total} {self._unit}", *metric_words(metrics, 3)]
            logger.info("%s", "  ".join(words), extra=self._extra)

    def stage_finished(self, stage: str, epoch: int, metrics: Mapping[str, float], seconds: float) -> None:
        line = summary_line(stage, epoch, self._epochs, metrics, seconds, self._rate())
        logger.info("%s", line, extra=self._extra)

    def _rate(self) -> float | None:
        """Measure steps per second; a single step says nothing."""
        if self._first is None:
            return None
        steps, seconds = self._last[0] - self._first[0], self._last[1] - self._first[1]
        return steps / seconds if steps > 0 and seconds > 0 else None
