"""An experiment's metrics as tables: each with its last value, its best and its curve, or epoch by epoch."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from rich.table import Table
from rich.text import Text

from solfa.spelling import short
from solfa.ui.terminal.printable import printable
from solfa.ui.terminal.sparkline import sparkline
from solfa.xp.record import Epoch

Direction = Literal["lower", "higher"]

LOWER = re.compile(
    r"bits|bpd|ce|cer|distance|err|error|fad|kad|kld?|l1|l2|loss|mae|mel|mse|nats|nll|perplexity|ppl|stft|wer"
)
HIGHER = re.compile(r"acc|accuracy|clap|pesq|score|sdr|similarity|sisnr|snr|stoi|visqol")
STAGES = ("train", "valid", "evaluate", "generate")
CURVE_WIDTH = 30


class Series(NamedTuple):
    """One metric of one stage over all epochs; None where it was not measured."""

    stage: str
    metric: str
    values: tuple[float | None, ...]

    @property
    def name(self) -> str:
        """The metric's name including its stage."""
        return f"{self.stage}.{self.metric}" if self.stage else self.metric

    @property
    def last(self) -> float | None:
        """The last measured value."""
        return next((value for value in reversed(self.values) if value is not None), None)

    @property
    def best(self) -> tuple[float, int] | None:
        """The best value and its epoch, counted from 1; None if it is unknown which way is better."""
        direction = better(self.metric)
        finite = [(value, at) for at, value in enumerate(self.values, 1) if value is not None and math.isfinite(value)]
        if direction is None or not finite:
            return None
        sign = 1 if direction == "lower" else -1
        return min(finite, key=lambda found: (sign * found[0], found[1]))


def better(metric: str) -> Direction | None:
    """Tell from its name which way a metric should go; None for a learning rate, a duration and the like."""
    words = re.findall(r"[a-z]+[12]?", metric.lower())
    if any(LOWER.fullmatch(word) or LOWER.fullmatch(word.rstrip("12")) for word in words):
        return "lower"
    return "higher" if any(HIGHER.fullmatch(word) for word in words) else None


def all_series(history: Sequence[Epoch]) -> list[Series]:
    """Gather the metrics of a history: stages in the order they run, metrics in the order they appeared."""
    names = dict.fromkeys((stage, metric) for epoch in history for stage in epoch for metric in epoch[stage])
    order = sorted(names, key=lambda name: STAGES.index(name[0]) if name[0] in STAGES else len(STAGES))
    return [
        Series(stage, metric, tuple(epoch.get(stage, {}).get(metric) for epoch in history)) for stage, metric in order
    ]


def main_series(series: Iterable[Series]) -> Series | None:
    """Choose the main metric of a run: a loss, preferably of valid, or else anything that should fall."""
    falling = [found for found in series if better(found.metric) == "lower"]
    stages = ("valid", "train")
    return min(
        falling,
        key=lambda found: (found.metric != "loss", stages.index(found.stage) if found.stage in stages else 2),
        default=None,
    )


def summary_table(series: Sequence[Series], width: int = CURVE_WIDTH) -> Table:
    """Make a table with one line per metric: last, best, the epoch of the best, and the curve."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("stage", "metric"):
        table.add_column(heading, no_wrap=True)
    for heading in ("last", "best", "at"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("curve", no_wrap=True)
    previous = None
    for found in series:
        best = found.best
        table.add_row(
            Text("" if found.stage == previous else printable(found.stage), "bold"),
            Text(printable(found.metric)),
            spell(found.last),
            "" if best is None else spell(best[0]),
            "" if best is None else str(best[1]),
            Text(sparkline(found.values, width), "cyan"),
        )
        previous = found.stage
    return table


def history_table(series: Sequence[Series], stage: str) -> Table:
    """Make a table of all values of one stage, one line per epoch, leaving out epochs without it."""
    shown = [found for found in series if found.stage == stage]
    table = Table(
        box=None, padding=(0, 2, 0, 0), header_style="dim", title=Text(printable(stage)), title_justify="left"
    )
    table.add_column("epoch", justify="right")
    for found in shown:
        table.add_column(Text(printable(found.metric)), justify="right")
    for epoch, values in enumerate(zip(*(found.values for found in shown), strict=True), 1):
        if any(value is not None for value in values):
            table.add_row(str(epoch), *(spell(value) for value in values))
    return table


def spell(value: float | None) -> str:
    """Write a metric with four digits; nothing if it was not measured."""
    return "" if value is None else short(value, 4)
