"""The model card of an experiment: a README next to the weights, and a plot of the training curve.

The Hugging Face Hub reads the header; the rest is what you want to know before using someone else's model: what it is,
what it was trained on and under which licences, with which settings, and how training went.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from solfa.spelling import plural
from solfa.version import __version__

CARD, CURVE = "README.md", "curve.svg"
_WIDTH, _HEIGHT, _MARGIN = 480, 220, 40
_COLOURS = {"train": "#8a3f7c", "valid": "#2f6f8f"}


def write_card(
    folder: Path,
    *,
    title: str,
    what: str,
    tag: str | None,
    facts: Mapping[str, Any],
    data_facts: Mapping[str, Any],
    history: Sequence[Mapping[str, Mapping[str, float | None]]],
    metric: str | None,
    use: str,
) -> None:
    """Write `README.md`, and `curve.svg` if there is a history, into a folder of weights.

    `tag` is the task by which the Hub lists it; None for what the Hub has no task for.
    """
    parts = [
        _head(tag, data_facts),
        f"# {title}\n\n{what}\n",
        f"```python\n{use}\n```\n",
        _table("Model", facts),
        _table("Training data", _data(data_facts)),
        _licences(data_facts.get("licences") or {}),
    ]
    svg = curve_svg(history, metric or "loss")
    if svg is not None:
        (folder / CURVE).write_text(svg, encoding="utf-8")
        parts.append(f"## Training curve\n\n![{metric or 'loss'} over epochs]({CURVE})\n")
    parts.append(f"Written by Solfa {__version__}.\n")
    (folder / CARD).write_text("\n".join(part for part in parts if part), encoding="utf-8")


def curve_svg(history: Sequence[Mapping[str, Mapping[str, float | None]]], metric: str) -> str | None:
    """Plot a metric of training and validation over the epochs, or as a point after one; None without values."""
    curves = {stage: [epoch.get(stage, {}).get(metric) for epoch in history] for stage in _COLOURS}
    points = {
        stage: [(place, value) for place, value in enumerate(values, 1) if value is not None]
        for stage, values in curves.items()
    }
    values = [value for curve in points.values() for _, value in curve]
    if not values:
        return None
    low, high = min(values), max(values)
    x_scale = (_WIDTH - 2 * _MARGIN) / max(1, len(history) - 1)
    y_scale = (_HEIGHT - 2 * _MARGIN) / ((high - low) or 1.0)

    def place(epoch: int, value: float) -> str:
        return f"{_MARGIN + (epoch - 1) * x_scale:.1f},{_HEIGHT - _MARGIN - (value - low) * y_scale:.1f}"

    lines = [_line([place(*point) for point in curve], _COLOURS[stage]) for stage, curve in points.items() if curve]
    labels = [
        _text(_MARGIN, _MARGIN - 8, f"{metric}, {high:.4g}"),
        _text(_MARGIN, _HEIGHT - _MARGIN + 14, f"{low:.4g}"),
        _text(_WIDTH - _MARGIN, _HEIGHT - 8, f"epoch {len(history)}", "end"),
        *(
            _text(_WIDTH - _MARGIN, 16 + 14 * row, f"{stage} {curve[-1][1]:.4g}", "end", _COLOURS[stage])
            for row, (stage, curve) in enumerate(points.items())
            if curve
        ),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="11"><rect width="100%" height="100%" fill="#ffffff"/>{"".join(lines)}{"".join(labels)}</svg>\n'
    )


def _line(points: Sequence[str], colour: str) -> str:
    if len(points) == 1:
        x, y = points[0].split(",")
        return f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>'
    return f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{" ".join(points)}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "#55515e") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _head(tag: str | None, data_facts: Mapping[str, Any]) -> str:
    licences = list(data_facts.get("licences") or {})
    # The licence of a model depends on the rights to its data, which a card cannot guess.
    task = [] if tag is None else [f"pipeline_tag: {tag}"]
    lines = ["library_name: solfa", *task, "tags:", "- solfa", "- audio"]
    note = f"# data licences: {json.dumps(licences)}" if licences else "# add the licence of the weights here"
    return "\n".join(["---", *lines, note, "---", ""])


def _data(data_facts: Mapping[str, Any]) -> dict[str, Any]:
    seconds = data_facts.get("seconds")
    known = {
        "clips": data_facts.get("clips"),
        "hours": None if seconds is None else f"{seconds / 3600:.2f}",
        "clip digest": data_facts.get("digest"),
        "dataset fingerprint": data_facts.get("fingerprint"),
        "codec": data_facts.get("codec"),
    }
    return {name: value for name, value in known.items() if value is not None}


def _licences(counts: Mapping[str, int]) -> str:
    return _table("Data licences", {licence: plural(clips, "clip") for licence, clips in counts.items()})


def _table(title: str, rows: Mapping[str, Any]) -> str:
    if not rows:
        return ""
    lines = [f"| {_cell(name)} | {_cell(value)} |" for name, value in rows.items()]
    return "\n".join([f"## {title}\n", "| | |", "|---|---|", *lines, ""])


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return " ".join(text.split()).replace("|", "\\|")
