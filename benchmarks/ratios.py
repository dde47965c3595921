"""Ratios that a benchmark measured, as a file that `run_all.py` collects and compares with an earlier one.

    [{"name": "encoding, mimi", "against": "the loop, tuned", "value": 1.42, "goal": 2.0, "better": "higher"}, ..]

A ratio compares two figures of one run, so it means the same on a busy machine and, more or less, on another one.
"""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

NOISE = 0.15
"""Smaller changes of a ratio say nothing on a machine that others use, too."""


@dataclass(frozen=True)
class Ratio:
    """How many times as much (or, where lower is better, as long) as something else."""

    name: str
    against: str
    value: float
    goal: float | None = None
    better: Literal["higher", "lower"] = "higher"

    @property
    def key(self) -> str:
        return f"{self.name} / {self.against}"

    @property
    def is_reached(self) -> bool | None:
        """Say whether the goal is reached; None if there is none."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.better == "higher" else self.value <= self.goal

    def change_from(self, before: "Ratio") -> float:
        """By what share it is better (above 0) or worse (below 0) than before."""
        grown = self.value / before.value
        return grown - 1 if self.better == "higher" else 1 / grown - 1


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let a benchmark be asked for its ratios."""
    parser.add_argument("--ratios", type=Path, metavar="FILE", help="also write the ratios here, as JSON")


def write_ratios(path: Path | None, ratios: Iterable[Ratio]) -> None:
    """Write the ratios of a benchmark where it was asked for them."""
    if path is not None:
        path.write_text(json.dumps([asdict(ratio) for ratio in ratios], indent=2) + "\n", encoding="utf-8")


def parse_ratios(values: Sequence[Mapping[str, object]]) -> list[Ratio]:
    """Read ratios from what JSON gave."""
    return [Ratio(**value) for value in values]  # type: ignore[arg-type]


def worse_than(before: Iterable[Ratio], now: Iterable[Ratio], noise: float = NOISE) -> list[tuple[Ratio, float]]:
    """List the ratios that are worse by more than noise, with their change; what is new or gone is left out."""
    known = {ratio.key: ratio for ratio in before}
    changes = [(ratio, ratio.change_from(known[ratio.key])) for ratio in now if ratio.key in known]
    return [(ratio, change) for ratio, change in changes if change < -noise]
