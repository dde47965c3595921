"""The comparison as a table, as differences with intervals, and as curves."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import sqrt
from statistics import mean, stdev

from solfa.ui import Markup, element

from .anchors import Anchors
from .scoring import COMMON, OWN
from .training import Result

FONT = "system-ui, sans-serif"
INK, QUIET, GRID = "#22202a", "#6a6674", "#e4e0e6"
COLOURS = ("#8a3f7c", "#2f6f9f", "#c2702a", "#4d8a4d", "#a3322b", "#5b54a4", "#7a7a2a", "#3c8f8a", "#b0577f", "#555555")
WIDTH, HEIGHT = 400, 270
LEGEND_COLUMNS, LEGEND_LINE = 3, 18
LEFT, RIGHT, TOP, BOTTOM = 40, 14, 30, 34
CELLS = {"mulaw8": "8-bit mu-law cells", "linear8": "8-bit linear cells"}
AXES = {"updates": "updates", "cpu_seconds": "CPU seconds"}
ANCHORS = {
    "uniform": "uniform",
    "unigram": "unigram",
    "one predictor": "one linear predictor + DML",
    "adaptive predictor": "adaptive linear predictor + DML",
    "flac": "FLAC",
}
GRIDS = {"mulaw8": "8-bit mu-law", "linear8": "8-bit linear", "linear12": "12-bit linear", "linear16": "16-bit linear"}


def markdown(runs: Sequence[Result], anchors: Anchors, recordings: Sequence[int]) -> str:
    """Write the table of networks, that of anchors, and the differences that matter."""
    head = "parameters: in, out, all | own grid | mu-law cells | linear cells | CPU s an update |"
    lines = [f"| network | seed | {head}", "|---|---|---|---|---|---|---|"]
    for result in runs:
        counts = result["parameters"]
        cells = " | ".join(_number(result["bits"].get(name)) for name in (OWN, *COMMON))
        seconds = result["cpu_seconds"] / result["settings"]["updates"]
        sizes = f"{counts['input']:,}, {counts['output']:,}, {counts['all']:,}"
        lines.append(f"| {result['title']} | {result['seed']} | {sizes} | {cells} | {seconds:.3f} |")
    lines += ["", "| anchor | reads | own grid | mu-law cells | linear cells |", "|---|---|---|---|---|"]
    for anchor, grids in anchors.items():
        for grid, bits in grids.items():
            known = {grid: bits[OWN], **bits} if grid in COMMON else bits
            cells = " | ".join(_number(known.get(name)) for name in (OWN, *COMMON))
            lines.append(f"| {ANCHORS[anchor]} | {GRIDS[grid]} | {cells} |")
    lines += ["", "| cells | seed | first | second | first minus second |", "|---|---|---|---|---|"]
    return "\n".join(lines + differences(runs, recordings)) + "\n"


def differences(runs: Sequence[Result], recordings: Sequence[int]) -> list[str]:
    """Compare all pairs of one seed on common cells, with the 95 % interval over held-out recordings.

    Grids that are too fine for common cells are compared, too, among those that have them.
    """
    finer = [grid for grid in dict.fromkeys(result["grid"] for result in runs) if grid not in CELLS]
    groups = [
        (cells, title, [one for one in runs if cells in one["bits_per_excerpt"]]) for cells, title in CELLS.items()
    ]
    groups += [(OWN, GRIDS[grid], [one for one in runs if one["grid"] == grid]) for grid in finer]
    rows = []
    for cells, title, able in groups:
        for first, second in combinations(able, 2):
            if first["seed"] == second["seed"]:
                ours, theirs = (result["bits_per_excerpt"][cells] for result in (first, second))
                centre, half = paired_interval(ours, theirs, recordings)
                names = f"{first['title']} | {second['title']}"
                rows.append(f"| {title} | {first['seed']} | {names} | {centre:+.3f} ± {half:.3f} |")
    return rows


def paired_interval(first: Sequence[float], second: Sequence[float], recordings: Sequence[int]) -> tuple[float, float]:
    """Give the mean difference over recordings, and half of its 95 % interval if recordings are independent."""
    groups: dict[int, list[float]] = {}
    for a, b, recording in zip(first, second, recordings, strict=True):
        groups.setdefault(recording, []).append(a - b)
    values = [mean(group) for group in groups.values()]
    return mean(values), 1.96 * stdev(values) / sqrt(len(values)) if len(values) > 1 else float("inf")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def curves(runs: Sequence[Result]) -> Markup:
    """Draw held-out bits on common cells over updates and over CPU seconds, a line for each contender.

    Several seeds are several lines of one colour. A point is of a few excerpts: anchors, scored on all, are not here.
    """
    titles = list(dict.fromkeys(result["title"] for result in runs))
    colours = {title: COLOURS[number % len(COLOURS)] for number, title in enumerate(titles)}
    legend = 4 + LEGEND_LINE * -(-len(titles) // LEGEND_COLUMNS)
    panels = (
        element(
            "g",
            *_panel(runs, cells, axis, colours),
            transform=f"translate({column * WIDTH} {legend + row * HEIGHT})",
        )
        for row, cells in enumerate(CELLS)
        for column, axis in enumerate(AXES)
    )
    width, height = WIDTH * len(AXES), legend + HEIGHT * len(CELLS)
    return element(
        "svg",
        element("rect", width="100%", height="100%", fill="#ffffff"),
        *_legend(colours),
        *panels,
        xmlns="http://www.w3.org/2000/svg",
        width=width,
        height=height,
        view_box=f"0 0 {width} {height}",
        font_family=FONT,
        font_size=11,
        role="img",
        aria_label="Held-out bits per sample of SaShiMi with both heads, over updates and over CPU seconds",
    )


def _legend(colours: Mapping[str, str]) -> list[Markup]:
    parts = []
    for number, (title, colour) in enumerate(colours.items()):
        x, y = 14 + number % LEGEND_COLUMNS * 265, LEGEND_LINE * (1 + number // LEGEND_COLUMNS)
        parts += [
            element("line", x1=x, y1=y - 4, x2=x + 18, y2=y - 4, stroke=colour, stroke_width=2.4),
            _text(title, x + 24, y, INK),
        ]
    return parts


def _panel(runs: Sequence[Result], cells: str, axis: str, colours: Mapping[str, str]) -> list[Markup]:
    able = [result for result in runs if cells in result["bits"]]
    # The first point is of an untrained network's first steps: with it, nothing else could be told apart.
    points = {index: result["curve"][1:] for index, result in enumerate(able)}
    bits = [point["bits"][cells] for curve in points.values() for point in curve]
    low, high = min(bits), max(bits)
    last = max(curve[-1][axis] for curve in points.values())

    def place(point: Mapping[str, float], value: float) -> str:
        across = LEFT + (WIDTH - LEFT - RIGHT) * point[axis] / last
        return f"{across:.1f},{TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / ((high - low) or 1.0):.1f}"

    parts = [_text(f"bits per sample, {CELLS[cells]}", LEFT, TOP - 12, INK)]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = TOP + (HEIGHT - TOP - BOTTOM) * share
        parts += [
            element("line", x1=LEFT, y1=y, x2=WIDTH - RIGHT, y2=y, stroke=GRID),
            _text(f"{high - share * (high - low):.2f}", LEFT - 5, y + 4, QUIET, "end"),
            _text(f"{share * last:,.0f}", LEFT + (WIDTH - LEFT - RIGHT) * share, HEIGHT - 18, QUIET, "middle"),
        ]
    parts.append(_text(AXES[axis], WIDTH - RIGHT, HEIGHT - 4, QUIET, "end"))
    for index, curve in points.items():
        path = " ".join(place(point, point["bits"][cells]) for point in curve)
        colour = colours[able[index]["title"]]
        parts.append(element("polyline", points=path, fill="none", stroke=colour, stroke_width=1.7))
    return parts


def _text(words: str, x: float, y: float, colour: str, anchor: str = "start") -> Markup:
    return element("text", words, x=x, y=y, fill=colour, text_anchor=anchor)
