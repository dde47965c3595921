"""What the built-in codec is to reach at 6 kbit/s, and whether a codec does: `--goals` of `codec_quality.py`.

A goal is either a number, or another system that is to be beaten on the same clips; then it is about the mean of the
differences. Reached means that the mean is on the right side; the 95 % interval says how sure that is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from solfa.errors import ConfigError
from solfa.files import replace_atomically

from .clips import Kind
from .measuring import Measurement
from .summary import DECIMALS, METRICS, bootstrap_interval

ALL_CODEBOOKS, HALF_THE_CODEBOOKS = 8, 4
RIVAL = "Opus 9"
LOWER_IS_BETTER = frozenset({"mel_db"})


@dataclass(frozen=True)
class Goal:
    """A bound for one measure on one kind of sound, or (None) to be better than what `rival` names."""

    kind: Kind
    metric: str
    bound: float | None = None
    rival: str = RIVAL


GOALS = (
    Goal("speech", "pesq", 2.2),
    Goal("speech", "stoi", 0.90),
    Goal("music", "mel_db", 3.3),
    Goal("music", "visqol"),
    Goal("effects", "si_sdr_db", 0.0),
)


@dataclass(frozen=True)
class Verdict:
    """What a codec reached of a goal on one table."""

    table: str
    family: str
    goal: Goal
    found: float
    """The mean, or the mean of the differences from the rival."""
    interval: tuple[float, float]

    @property
    def is_reached(self) -> bool:
        bound = self.goal.bound or 0.0
        return self.found <= bound if self.goal.metric in LOWER_IS_BETTER else self.found >= bound

    @property
    def cells(self) -> tuple[str, ...]:
        decimals = DECIMALS[self.goal.metric]
        relation = "≤" if self.goal.metric in LOWER_IS_BETTER else "≥"
        sign = "" if self.goal.bound is not None else "+"
        wanted = f"better than {self.goal.rival}" if self.goal.bound is None else f"{relation} {self.goal.bound:g}"
        low, high = self.interval
        numbers = f"{self.found:{sign}.{decimals}f} [{low:{sign}.{decimals}f}, {high:{sign}.{decimals}f}]"
        measure = METRICS[self.goal.metric]
        reached = "reached" if self.is_reached else "missed"
        return self.family, f"{self.goal.kind.capitalize()}, {self.table}", measure, wanted, numbers, reached


HEADER = ("codec", "sound", "measure", "goal", "found", "")


def judge(measurements: Sequence[Measurement], families: Sequence[str]) -> list[Verdict]:
    """Compare every codec, by the name of its family, with the goals on every table that has the kind of sound."""
    verdicts = []
    for family in families:
        eight, four = (f"{family} × {number}" for number in (ALL_CODEBOOKS, HALF_THE_CODEBOOKS))
        _expect_systems(measurements, (eight, four, RIVAL))
        more = tuple(Goal(kind, "mel_db", rival=four) for kind in ("speech", "music", "effects"))
        for table in dict.fromkeys(measurement.clip.row.table for measurement in measurements):
            for goal in (*GOALS, *more):
                values = _values(measurements, table, goal.kind, eight, goal.metric)
                if goal.bound is None:
                    rivals = _values(measurements, table, goal.kind, goal.rival, goal.metric)
                    values = {clip: value - rivals[clip] for clip, value in values.items() if clip in rivals}
                if values:
                    verdicts.append(_verdict(table, family, goal, values))
    return verdicts


def _expect_systems(measurements: Sequence[Measurement], names: Sequence[str]) -> None:
    there = {measurement.system for measurement in measurements}
    missing = [name for name in names if name not in there]
    if missing:
        raise ConfigError(
            f"--goals: expected {' and '.join(names)} among the systems, found no {missing[0]}; "
            f"add --codebooks {HALF_THE_CODEBOOKS},{ALL_CODEBOOKS} --opus {RIVAL.split()[-1]}"
        )


def _values(
    measurements: Sequence[Measurement], table: str, kind: Kind, system: str, metric: str
) -> Mapping[tuple[Path, float], float]:
    """Collect a measure by recording and start; clips to which it does not apply are left out."""
    chosen = [
        (measurement.clip, measurement.scores.as_dict()[metric])
        for measurement in measurements
        if (measurement.clip.row.table, measurement.clip.row.kind, measurement.system) == (table, kind, system)
    ]
    return {
        (clip.row.path, clip.start_seconds): value for clip, value in chosen if value is not None and np.isfinite(value)
    }


def _verdict(table: str, family: str, goal: Goal, values: Mapping[tuple[Path, float], float]) -> Verdict:
    recordings: dict[Path, list[float]] = {}
    for (path, _), value in values.items():
        recordings.setdefault(path, []).append(value)
    mean = float(np.mean(list(values.values())))
    return Verdict(table, family, goal, mean, bootstrap_interval(list(recordings.values())))


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """Lay out verdicts for the terminal."""
    table = Table(*HEADER, title="Goals at 6 kbit/s", title_justify="left")
    for verdict in verdicts:
        table.add_row(*verdict.cells)
    return table


def write_verdicts(verdicts: Sequence[Verdict], out: Path) -> None:
    """Write `goals.md`."""
    rows = [HEADER, ["---"] * len(HEADER), *(verdict.cells for verdict in verdicts)]
    replace_atomically(out / "goals.md", "".join(f"| {' | '.join(row)} |\n" for row in rows).encode())
