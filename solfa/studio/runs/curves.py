"""Curves of a run, or of several over each other, as drawings that need no script."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from solfa.spelling import short
from solfa.ui.html.charts import axis
from solfa.ui.html.markup import Markup, element, join
from solfa.ui.terminal.history_table import Series, all_series, better, main_series
from solfa.xp.record import Epoch, ExperimentRecord

MAX_LABELS = 6
JUDGED = ("kad", "fad", "kld", "clap")
"""Measures of generated clips: what one listens for comes right after the loss."""
COUNTED = {("generate", "clips")}
"""What was done, not how well: as many clips are generated in every epoch."""
BESIDE = ("low", "high", "floor")
"""The ends of an interval, and what real clips have among each other, belong to the measure that they are of."""


class Line(NamedTuple):
    """One curve: what it is called, and its values, None where it was not measured."""

    name: str
    values: Sequence[float | None]

    @property
    def points(self) -> list[tuple[int, float]]:
        """The finite values with their epochs, counted from 1."""
        measured = ((epoch, value) for epoch, value in enumerate(self.values, 1) if value is not None)
        return [(epoch, value) for epoch, value in measured if math.isfinite(value)]


def metric_charts(history: Sequence[Epoch]) -> list[tuple[str, Markup]]:
    """Draw a chart for each metric, a line for each stage: the loss first, then how generated clips were judged."""
    stages: dict[str, list[Line]] = {}
    found = _measured(history)
    metrics = {series.metric for series in found}
    for series in found:
        metric, _, end = series.metric.rpartition("_")
        if end in BESIDE and metric in metrics:
            stages.setdefault(metric, []).append(Line(f"{series.stage} {end}", series.values))
        else:
            stages.setdefault(series.metric, []).append(Line(series.stage or series.metric, series.values))
    main = main_series(found)
    ordered = sorted(stages, key=lambda metric: _rank(metric, main))
    return [(metric, line_chart(metric, stages[metric])) for metric in ordered]


def _measured(history: Sequence[Epoch]) -> list[Series]:
    return [series for series in all_series(history) if (series.stage, series.metric) not in COUNTED]


def _rank(metric: str, main: Series | None) -> int:
    if main is not None and metric == main.metric:
        return 0
    if metric.partition(".")[0].partition("_")[0] in JUDGED:
        return 1
    return 2 if better(metric) else 3


def compared_charts(records: Sequence[ExperimentRecord]) -> list[tuple[str, Markup]]:
    """Draw what several runs have in common, a line for each run."""
    found: dict[str, list[Line]] = {}
    for record in records:
        for series in _measured(record.history):
            found.setdefault(series.name, []).append(Line(record.signature, series.values))
    shared = {name: lines for name, lines in found.items() if len(lines) == len(records)}
    return [(name, line_chart(name, lines)) for name, lines in shared.items()]


def line_chart(title: str, lines: Sequence[Line]) -> Markup:
    """Draw lines over the epochs in a box that stretches, with their last values; nothing finite draws nothing."""
    num_epochs = max((len(line.values) for line in lines), default=0)
    shown = [line for line in lines if line.points]
    if not shown:
        return element("figure", element("h3", title), element("p", "nothing measured yet", class_="quiet"))
    values = [value for line in shown for _, value in line.points]
    low, high = min(values), max(values)
    drawn = (
        element("path", d=_path(line, num_epochs, low, high), class_=f"{_kind(line)} line-{index % 6}")
        for index, line in enumerate(shown)
    )
    words = "; ".join(f"{line.name} from {short(line.points[0][1])} to {short(line.points[-1][1])}" for line in shown)
    svg = element(
        "svg",
        *drawn,
        class_="curves",
        view_box="0 0 100 100",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{title} over {num_epochs} epochs: {words}",
    )
    legend = (
        element("span", element("i", class_=f"swatch line-{index % 6}"), f"{line.name} ", element("b", _last(line)))
        for index, line in enumerate(shown)
    )
    levels = [(high, 96.0)] if low == high else [(high, 96.0), (low, 4.0)]
    marks = (element("span", short(level), style=f"bottom:{place:.0f}%") for level, place in levels)
    return element(
        "figure",
        element("h3", title),
        element(
            "div",
            element("div", *marks, class_="levels", aria_hidden="true"),
            element("div", svg, class_="chart"),
            class_="leveled",
        ),
        element("div", axis(_epoch_ticks(num_epochs)), class_="under"),
        element("figcaption", join(*legend), class_="legend"),
    )


def small_chart(values: Sequence[float | None]) -> Markup:
    """Draw one line without any words, for a table."""
    line = Line("", values)
    if not line.points:
        return Markup("")
    found = [value for _, value in line.points]
    path = element("path", d=_path(line, len(values), min(found), max(found)), class_=f"{_kind(line)} line-0")
    return element(
        "svg", path, class_="curves small", view_box="0 0 100 100", preserveAspectRatio="none", aria_hidden="true"
    )


def _kind(line: Line) -> str:
    return "line" if len(line.points) > 1 else "line dot"


def _last(line: Line) -> str:
    return short(line.points[-1][1], 4)


def _path(line: Line, num_epochs: int, low: float, high: float) -> str:
    """Join neighbouring epochs; what was measured now and then is joined as well, and a single point is a dot."""
    span = high / 2 - low / 2  # halves, whose difference cannot overflow
    places = [
        (
            100.0 * (epoch - 1) / (num_epochs - 1) if num_epochs > 1 else 50.0,
            50.0 if span == 0 else 96.0 - 92.0 * ((value / 2 - low / 2) / span),
        )
        for epoch, value in line.points
    ]
    if len(places) == 1:
        return f"M{places[0][0]:.2f} {places[0][1]:.2f}h0.01"
    return "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in places)


def _epoch_ticks(num_epochs: int) -> list[tuple[str, float]]:
    if num_epochs <= 1:
        return [("epoch 1", 0.5)]
    step = max(1, -(-(num_epochs - 1) // (MAX_LABELS - 1)))
    epochs = [*range(1, num_epochs, step), num_epochs]
    if len(epochs) > 2 and epochs[-1] - epochs[-2] < step / 2:
        del epochs[-2]
    return [(str(epoch) if epoch > 1 else "epoch 1", (epoch - 1) / (num_epochs - 1)) for epoch in epochs]


def summary(record: ExperimentRecord) -> Mapping[str, object]:
    """Say how the main metric of a run is doing, for a table of runs."""
    main = main_series(all_series(record.history))
    if main is None:
        return {"metric": "", "last": "", "best": "", "curve": Markup("")}
    best = main.best
    return {
        "metric": main.name,
        "last": "" if main.last is None else short(main.last, 4),
        "best": "" if best is None else short(best[0], 4),
        "curve": small_chart(main.values),
    }
