"""Pictures of a report, as SVG that a browser and a repository page show alike."""

from collections.abc import Sequence
from math import log2

from solfa.ui import Markup, element
from solfa.ui.html.excerpt import data_uri
from solfa.ui.html.picture import spectrogram_db, spectrogram_png
from solfa.ui.html.report_data import Sound

from .summary import Group, Line

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif"
INK, QUIET, GRID = "#22202a", "#6a6674", "#e4e0e6"
COLOURS = ("#8a3f7c", "#2f6f9f", "#c2702a", "#4d8a4d", "#a3322b", "#5b54a4", "#7a7a2a", "#3b8a8a")

WIDTH, HEIGHT = 330, 270
LEFT, RIGHT, TOP, BOTTOM = 34, 12, 34, 34
"""Of one panel, around the axes."""
KBIT_TICKS = (1.5, 3, 6, 12, 24, 48, 96, 192)
LOWEST, HIGHEST = 1.0, 4.75
LEGEND = 26


def quality_chart(groups: Sequence[Group]) -> Markup:
    """Draw ViSQOL against kbit/s, a panel for every group and a line for every family; bars are 95 % intervals."""
    families = list(dict.fromkeys(line.family for group in groups for line in group.lines))
    colours = {family: COLOURS[number % len(COLOURS)] for number, family in enumerate(families)}
    columns = min(3, len(groups))
    rows = -(-len(groups) // columns)
    low, high = _span(groups)
    panels = (
        element(
            "g",
            *_panel(group, colours, low, high),
            transform=f"translate({number % columns * WIDTH} {LEGEND + number // columns * HEIGHT})",
        )
        for number, group in enumerate(groups)
    )
    return _svg(columns * WIDTH, LEGEND + rows * HEIGHT, *_legend(colours), *panels)


def _span(groups: Sequence[Group]) -> tuple[float, float]:
    rates = [line.kbit_per_second for group in groups for line in group.lines if line.kbit_per_second]
    return min([6.0, *rates]) * 0.85, max([24.0, *rates]) * 1.18


def _panel(group: Group, colours: dict[str, str], low: float, high: float) -> list[Markup]:
    def across(kbit: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * log2(kbit / low) / log2(high / low)

    def down(score: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (HIGHEST - score) / (HIGHEST - LOWEST)

    ticks = [tick for tick in KBIT_TICKS if low <= tick <= high]
    parts = [_text(group.title, LEFT, TOP - 12, weight=600), _text("kbit/s", WIDTH - RIGHT, HEIGHT - 4, anchor="end")]
    for level in range(1, 5):
        parts += [
            _line(LEFT, down(level), WIDTH - RIGHT, down(level), GRID),
            _text(str(level), LEFT - 8, down(level) + 4),
        ]
    parts += [_text(f"{tick:g}", across(tick), HEIGHT - BOTTOM + 16, anchor="middle") for tick in ticks]
    for family, colour in colours.items():
        members = [line for line in group.lines if line.family == family]
        rated = [(line, across(line.kbit_per_second)) for line in members if line.kbit_per_second]
        for line in members:
            if not line.kbit_per_second:
                height = down(_score(line))
                parts += [_line(LEFT, height, WIDTH - RIGHT, height, colour, dash="4 3")]
        if rated:
            path = " ".join(f"{place:.1f},{down(_score(line)):.1f}" for line, place in rated)
            parts.append(element("polyline", points=path, fill="none", stroke=colour, stroke_width=1.5))
        for line, place in rated:
            bounds = [down(bound) for bound in line.visqol_interval]
            parts += [_line(place, bounds[0], place, bounds[1], colour), _dot(place, down(_score(line)), colour)]
    return parts


def _score(line: Line) -> float:
    score = line.means["visqol"]
    assert score is not None
    return score


def _legend(colours: dict[str, str]) -> list[Markup]:
    parts, place = [_text("ViSQOL", 8, 17, weight=600)], 76.0
    for family, colour in colours.items():
        parts += [_dot(place, 13, colour), _text(family, place + 9, 17, anchor="start")]
        place += 30 + 7 * len(family)
    return parts


def spectrogram_sheet(named: Sequence[tuple[str, Sound]], columns: int = 2) -> Markup:
    """Lay out spectrograms of one clip with their names; kHz up to 24 on a mel axis, one scale of levels for all."""
    width, height, gap = 480, 150, 26
    pictures = [spectrogram_db(sound.audio, sound.sample_rate) for _, sound in named]
    loudest = float(pictures[0].max())
    parts = []
    for number, ((name, _), picture) in enumerate(zip(named, pictures, strict=True)):
        x, y = number % columns * (width + gap) + gap / 2, number // columns * (height + gap) + gap
        address = data_uri(spectrogram_png(picture, loudest), "image/png")
        image = element("image", href=address, x=x, y=y, width=width, height=height, preserveAspectRatio="none")
        parts += [_text(name, x, y - 7, anchor="start", weight=600), image]
    rows = -(-len(named) // columns)
    return _svg(columns * (width + gap), rows * (height + gap) + gap / 2, *parts)


def _svg(width: float, height: float, *parts: Markup) -> Markup:
    return element(
        "svg",
        element("rect", width="100%", height="100%", fill="#ffffff"),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        view_box=f"0 0 {width:g} {height:g}",
        font_family=FONT,
        font_size=12,
    )


def _text(words: str, x: float, y: float, anchor: str | None = None, weight: int | None = None) -> Markup:
    anchor = anchor or ("start" if weight else "end")
    return element("text", words, x=x, y=y, text_anchor=anchor, font_weight=weight, fill=INK if weight else QUIET)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dash: str | None = None) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, stroke_dasharray=dash)


def _dot(x: float, y: float, colour: str) -> Markup:
    return element("circle", cx=x, cy=y, r=3.5, fill=colour)
