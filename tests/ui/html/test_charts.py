"""Bars are as high as their counts."""

import re

import numpy as np
import pytest

from solfa.ui.html.charts import bars, merged_bars


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
