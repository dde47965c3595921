"""Draw the validation curves of an experiment that trains a codec.

    python recipes/built_in_codec/curves.py FIRST/history.json SECOND/history.json curves.svg

A panel each for mel distance (dB), SI-SDR (dB) and the perplexity of the codebooks, over the epochs of all histories.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from solfa.files import replace_atomically
from solfa.ui import Markup, element

METRICS = {"mel_distance": "mel distance, dB", "si_sdr": "SI-SDR, dB", "perplexity": "perplexity of 1,024 entries"}
WIDTH, HEIGHT = 300, 190
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 30, 26
INK, QUIET, LINE, GRID = "#22202a", "#6a6674", "#8a3f7c", "#e4e0e6"


def curves(history: Sequence[dict[str, dict[str, float]]]) -> Markup:
    """Lay out one panel for every metric."""
    panels = []
    for number, (metric, title) in enumerate(METRICS.items()):
        values = [epoch["valid"][metric] for epoch in history if "valid" in epoch]
        panels.append(element("g", *panel(title, values), transform=f"translate({number * WIDTH} 0)"))
    return element(
        "svg",
        element("rect", width="100%", height="100%", fill="#ffffff"),
        *panels,
        xmlns="http://www.w3.org/2000/svg",
        view_box=f"0 0 {len(METRICS) * WIDTH} {HEIGHT}",
        font_family="system-ui, sans-serif",
        font_size=11,
    )


def panel(title: str, values: Sequence[float]) -> list[Markup]:
    """Draw one curve with its lowest and highest value."""
    low, high = min(values), max(values)

    def place(epoch: int, value: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - RIGHT) * epoch / max(1, len(values) - 1)
        return across, TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / ((high - low) or 1.0)

    points = " ".join("{:.1f},{:.1f}".format(*place(epoch, value)) for epoch, value in enumerate(values))
    parts = [text(title, LEFT, TOP - 12, INK)]
    for value in (low, high):
        y = place(0, value)[1]
        parts += [element("line", x1=LEFT, y1=y, x2=WIDTH - RIGHT, y2=y, stroke=GRID)]
        parts += [text(f"{value:.4g}", LEFT - 6, y + 4, QUIET, "end")]
    parts += [text("epoch 1", LEFT, HEIGHT - 8, QUIET), text(str(len(values)), WIDTH - RIGHT, HEIGHT - 8, QUIET, "end")]
    return [*parts, element("polyline", points=points, fill="none", stroke=LINE, stroke_width=1.6)]


def text(words: str, x: float, y: float, colour: str, anchor: str = "start") -> Markup:
    """Write words beginning or ending at a place."""
    return element("text", words, x=x, y=y, fill=colour, text_anchor=anchor)


def main() -> None:
    """Read the arguments and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("histories", nargs="+", type=Path)
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    picture = curves([epoch for path in arguments.histories for epoch in json.loads(path.read_text())])
    replace_atomically(arguments.picture, str(picture).encode())


if __name__ == "__main__":
    main()
