"""Bars are as high as their counts."""

import re

import numpy as np
import pytest

from solfa.ui.html.charts import bars, merged_bars
from solfa.ui.numbers import duration, plural, short, signed_db, size


def tops(svg: str) -> dict[float, float]:
    found = re.findall(r"M([\d.]+) 100V([\d.]+)H", svg)
    return {float(place): 100 - float(top) for place, top in found}


def test_bars_are_proportional_and_empty_ones_are_not_drawn():
    assert tops(bars(np.array([4.0, 0.0, 1.0, 2.0]), "x")) == {0: 100, 2: 25, 3: 50}


def test_a_rare_bar_is_still_seen():
    assert tops(bars(np.array([1_000_000.0, 1.0]), "x"))[1] == 1.0


def test_many_counts_are_merged_by_averaging():
    assert merged_bars(np.arange(8), 4).tolist() == [0.5, 2.5, 4.5, 6.5]
    assert merged_bars(np.arange(3), 4).tolist() == [0, 1, 2]
    counts = np.random.default_rng(0).integers(0, 9, 65_536)
    assert len(merged_bars(counts)) == 128 and merged_bars(counts).mean() == pytest.approx(counts.mean())


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (short(0.0), "0"),
        (short(-0.0), "0"),
        (short(-7.803), "−7.8"),
        (short(1234.5), "1,234" if f"{1234.5:.0f}" == "1234" else "1,235"),
        (short(0.00012345), "0.000123"),
        (short(1e-9), "1e-09"),
        (short(float("nan")), "nan"),
        (duration(0.5), "0.50 s"),
        (duration(125), "2 min 05 s"),
        (duration(45_600), "12 h 40 min"),
        (duration(86_400 * 9.5), "9.5 days"),
        (size(999), "999 bytes"),
        (size(4_370_000), "4.37 MB"),
        (plural(1, "clip"), "1 clip"),
        (plural(2_000, "clip"), "2,000 clips"),
        (signed_db(-3.14), "−3.1 dB"),
        (signed_db(float("-inf")), "−∞ dB"),
    ],
)
def test_numbers_are_written_as_people_read_them(written, expected):
    assert written == expected
