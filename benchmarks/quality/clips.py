"""Which excerpts of which recordings are measured: a fixed rule, so that every system gets the same sound.

A table is a CSV with the columns path (absolute, or relative to the table), kind and package.
"""

import csv
import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from solfa.audio import Location, read_span
from solfa.audio.probe import probe
from solfa.errors import AudioError, ConfigError

Kind = Literal["music", "speech", "effects"]
Item = TypeVar("Item")
Mono = NDArray[np.float32]
"""`[N]`"""

SAMPLE_RATE = 48_000
"""Of the reference: what ViSQOL and Opus take."""
MIN_SECONDS = 1.0
"""Shorter recordings are left out: ViSQOL compares patches of 0.6 s."""
SILENT_RMS = 1e-3
"""Excerpts below -60 dB of full scale are left out: no metric says anything about silence."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Row:
    """One recording of a table."""

    table: str
    kind: Kind
    package: str
    path: Path


@dataclass(frozen=True)
class Clip:
    """An excerpt of a recording."""

    row: Row
    start_seconds: float
    seconds: float
    digest: str = ""
    """SHA-256 of the excerpt's samples."""

    @property
    def id(self) -> str:
        return f"{self.row.package}/{self.row.path.stem} at {self.start_seconds:.1f} s"


def read_table(path: Path) -> list[Row]:
    """Read a table of recordings."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            records = list(csv.DictReader(file))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such table; expected a CSV with the columns path, kind and package") from None
    rows = []
    for number, record in enumerate(records, start=2):
        missing = [name for name in ("path", "kind", "package") if not record.get(name)]
        if missing:
            raise ConfigError(f"{path}, line {number}: expected path, kind and package, found no {missing[0]}")
        kind = next((known for known in get_args(Kind) if known == record["kind"]), None)
        if kind is None:
            expected = ", ".join(get_args(Kind))
            raise ConfigError(f"{path}, line {number}: kind: expected one of {expected}, found {record['kind']!r}")
        rows.append(Row(path.stem, kind, record["package"], path.parent / record["path"]))
    return rows


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """Take at most `count` items at equal distances, none of them at an end."""
    taken = min(count, len(items))
    return [items[(2 * index + 1) * len(items) // (2 * taken)] for index in range(taken)]


def excerpt_starts(total_seconds: float, seconds: float, count: int) -> list[float]:
    """Place at most `count` excerpts that do not overlap, each in the middle of its share of the recording."""
    taken = max(1, min(count, int(total_seconds / seconds)))
    length = min(seconds, total_seconds)
    return [(2 * index + 1) * total_seconds / (2 * taken) - length / 2 for index in range(taken)]


def choose_clips(rows: Iterable[Row], per_package: int, excerpts: int, seconds: float) -> list[Clip]:
    """Choose at most `per_package` excerpts of every table, kind and package, spread over its recordings by path.

    Where there are fewer recordings than that, up to `excerpts` are taken of each.
    """
    groups: dict[tuple[str, str, str], list[tuple[Row, float]]] = {}
    kinds = get_args(Kind)
    for row in sorted(set(rows), key=lambda row: (row.table, kinds.index(row.kind), row.package, row.path)):
        length = _seconds(row)
        if length >= MIN_SECONDS:
            groups.setdefault((row.table, row.kind, row.package), []).append((row, length))
    clips = [
        Clip(row, start, min(seconds, length))
        for members in groups.values()
        for row, length in spread(members, per_package)
        for start in excerpt_starts(length, seconds, min(excerpts, max(1, per_package // len(members))))
    ]
    return [digested for clip in clips if (digested := _digested(clip)) is not None]


def read_excerpt(clip: Clip) -> Mono:
    """Read an excerpt as mono at 48 kHz; one that resampling or mixing lifts over full scale is scaled back to it."""
    location = _location(clip.row)
    info = probe(location)
    start = round(clip.start_seconds * info.sample_rate)
    stop = min(info.num_samples, start + round(clip.seconds * info.sample_rate))
    audio = read_span(location, info, start, stop, SAMPLE_RATE, 1)[0]
    peak = float(np.abs(audio).max())
    return audio if peak <= 1.0 else np.asarray(audio / peak, np.float32)


def _digested(clip: Clip) -> Clip | None:
    audio = read_excerpt(clip)
    if float(np.sqrt(np.mean(np.square(audio, dtype=np.float64)))) < SILENT_RMS:
        logger.warning("%s: left out, it is silent", clip.id)
        return None
    return Clip(clip.row, clip.start_seconds, clip.seconds, hashlib.sha256(audio.tobytes()).hexdigest())


def _seconds(row: Row) -> float:
    try:
        info = probe(_location(row))
    except (AudioError, OSError) as error:
        raise AudioError(f"{row.path}: {error}; take it out of the table {row.table}") from None
    return info.num_samples / info.sample_rate


def _location(row: Row) -> Location:
    return Location(row.path, format_hint=row.path.suffix.lower())
