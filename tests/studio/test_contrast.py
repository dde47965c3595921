"""The look: words and lines can be told from what is behind them, in light and in dark (WCAG 2.2, AA)."""

import re

import pytest

from solfa.studio.pages import STATIC
from solfa.ui.html.style import style_sheet

SHEET = style_sheet() + (STATIC / "studio.css").read_text(encoding="utf-8")
WORDS = [
    ("ink", "paper"), ("ink", "card"), ("quiet", "paper"), ("quiet", "card"), ("accent", "paper"), ("accent", "card"),
    ("alarm", "paper"), ("alarm", "card"), ("paper", "accent"), ("paper", "alarm"),
]  # fmt: skip
SHAPES = [("field", "paper"), ("field", "card"), *((f"line-{index}", "paper") for index in range(6)), ("good", "paper")]


def colours(is_dark: bool) -> dict[str, str]:
    """Read the colours of the style sheets; those of a dark screen replace some."""
    blocks = re.findall(r":root\s*\{([^}]*)\}", re.sub(r"@media \(prefers-color-scheme: dark\)", "@dark", SHEET))
    dark = re.findall(r"@media \(prefers-color-scheme: dark\) \{\s*:root\s*\{([^}]*)\}", SHEET)
    found: dict[str, str] = {}
    for block in [*(block for block in blocks if block not in dark), *(dark if is_dark else [])]:
        found |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    return found


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_is_the_most_there_is() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)


@pytest.mark.parametrize("is_dark", [False, True])
def test_words_and_shapes_can_be_told_apart(is_dark: bool) -> None:
    known = colours(is_dark)
    found = {pair: contrast(known[pair[0]], known[pair[1]]) for pair in [*WORDS, *SHAPES]}
    assert {pair: ratio for pair, ratio in found.items() if ratio < (4.5 if pair in WORDS else 3.0)} == {}
