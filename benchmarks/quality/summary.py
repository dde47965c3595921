"""Means over clips with their uncertainty, as tables for the terminal, for Markdown and for other programs."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from solfa.files import replace_atomically
from solfa.spelling import plural

from .measuring import Measurement

TITLE = "Quality of codecs"
NUM_DRAWS = 10_000
METRICS = {"visqol": "ViSQOL", "si_sdr_db": "SI-SDR, dB", "mel_db": "mel distance, dB", "pesq": "PESQ", "stoi": "STOI"}
DECIMALS = {"visqol": 2, "si_sdr_db": 1, "mel_db": 2, "pesq": 2, "stoi": 3}

EXPLANATION = """\
Higher is better for ViSQOL (audio mode, 1 to 4.73), SI-SDR, PESQ (wide band, 1 to 4.64) and STOI (0 to 1); lower for
the mel distance. Means over clips; in brackets the 95 % interval of the mean of ViSQOL, by drawing recordings with
replacement. kbit/s are the bits of the packets over their time, without the container. "24 kHz" is the original at
that rate: the most that a codec of 24 kHz can reach. SI-SDR counts every difference of phase, and low-rate codecs are
not made to keep it. ViSQOL counts the band above all and hears little of the order of sounds: "backwards" is a
control, the original played from its end.
"""


@dataclass(frozen=True)
class Line:
    """A system on one kind of sound."""

    system: str
    family: str
    kbit_per_second: float | None
    means: Mapping[str, float | None]
    visqol_interval: tuple[float, float]


@dataclass(frozen=True)
class Group:
    """One kind of sound of one table."""

    table: str
    kind: str
    num_clips: int
    num_recordings: int
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        return f"{self.kind.capitalize()}, {self.table}"

    @property
    def size(self) -> str:
        return f"{plural(self.num_clips, 'clip')} of {plural(self.num_recordings, 'recording')}"

    @property
    def metrics(self) -> list[str]:
        """The measures that apply to at least one line."""
        return [name for name in METRICS if any(line.means[name] is not None for line in self.lines)]


def summarise(measurements: Sequence[Measurement]) -> list[Group]:
    """Group by table and kind, in the order of tables and systems given."""
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for measurement in measurements:
        row = measurement.clip.row
        groups.setdefault((row.table, row.kind), []).append(measurement)
    return [_group(table, kind, members) for (table, kind), members in groups.items()]


def _group(table: str, kind: str, members: Sequence[Measurement]) -> Group:
    systems: dict[str, list[Measurement]] = {}
    for member in members:
        systems.setdefault(member.system, []).append(member)
    clips = {member.clip for member in members}
    recordings = {clip.row.path for clip in clips}
    return Group(table, kind, len(clips), len(recordings), tuple(_line(group) for group in systems.values()))


def _line(members: Sequence[Measurement]) -> Line:
    first = members[0]
    by_recording: dict[Path, list[float]] = {}
    for member in members:
        by_recording.setdefault(member.clip.row.path, []).append(member.scores.visqol)
    means = {name: mean([member.scores.as_dict()[name] for member in members]) for name in METRICS}
    kbit = mean([member.kbit_per_second for member in members])
    return Line(first.system, first.family, kbit, means, bootstrap_interval(list(by_recording.values())))


def mean(values: Sequence[float | None]) -> float | None:
    """Average what applies; None if nothing does."""
    numbers = [value for value in values if value is not None and np.isfinite(value)]
    return float(np.mean(numbers)) if numbers else None


def bootstrap_interval(recordings: Sequence[Sequence[float]], share: float = 0.95) -> tuple[float, float]:
    """Bound the mean over all clips by drawing whole recordings: excerpts of one are alike, and do not count twice."""
    sums = np.array([sum(values) for values in recordings])
    counts = np.array([len(values) for values in recordings])
    drawn = np.random.default_rng(0).integers(0, len(recordings), (NUM_DRAWS, len(recordings)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, ((1 - share) / 2, (1 + share) / 2))
    return float(low), float(high)


def cells(group: Group, line: Line) -> list[str]:
    """Spell a line as the cells of a table: system, kbit/s, then the group's metrics."""
    low, high = line.visqol_interval
    spread = {"visqol": f" [{low:.2f}, {high:.2f}]"}
    numbers = [
        "–" if (value := line.means[name]) is None else f"{value:.{DECIMALS[name]}f}{spread.get(name, '')}"
        for name in group.metrics
    ]
    return [line.system, "–" if line.kbit_per_second is None else f"{line.kbit_per_second:.1f}", *numbers]


def header(group: Group) -> list[str]:
    """Name the columns of `cells`."""
    return ["system", "kbit/s", *(METRICS[name] for name in group.metrics)]


def terminal_table(group: Group) -> Table:
    """Lay out a group for the terminal."""
    table = Table(title=f"{group.title}: {group.size}", title_justify="left")
    for number, name in enumerate(header(group)):
        table.add_column(name, justify="right" if number else "left")
    for line in group.lines:
        table.add_row(*cells(group, line))
    return table


def markdown(groups: Sequence[Group], packages: Mapping[str, str]) -> str:
    """Write all groups as Markdown, and the versions of the packages that measured."""
    measured = ", ".join(f"{name} {number}" for name, number in packages.items())
    parts = [f"# {TITLE}", f"{EXPLANATION}Measured with {measured}."]
    for group in groups:
        rows = [header(group), ["---", *("---:" for _ in header(group)[1:])], *(cells(group, it) for it in group.lines)]
        table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        parts += [f"## {group.title}", f"{group.size.capitalize()}.", table]
    return "\n\n".join(parts) + "\n"


def write_tables(
    measurements: Sequence[Measurement], groups: Sequence[Group], packages: Mapping[str, str], out: Path
) -> None:
    """Write `results.json` and `results.csv` (a row per clip and system) and `summary.md`."""
    rows = [measurement.as_row() for measurement in measurements]
    content = {"packages": dict(packages), "results": rows}
    replace_atomically(out / "results.json", json.dumps(content, indent=1, ensure_ascii=False).encode())
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    replace_atomically(out / "results.csv", text.getvalue().encode())
    replace_atomically(out / "summary.md", markdown(groups, packages).encode())
