"""The contents of a report as plain data: made by `dataset_page` or by hand, written by `write_report`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solfa.evaluate.statistics import CodeStatistics, LatentStatistics, LengthHistogram


class Fact(NamedTuple):
    """One number or word about the dataset, already formatted for people."""

    name: str
    value: str
    note: str = ""


class FailureRow(NamedTuple):
    """A recording that could not be encoded, or not all of it, and why."""

    id: str
    reason: str


@dataclass(frozen=True, eq=False)
class Sound:
    """Audio to listen to: `[C, N]` floats with full scale at 1."""

    audio: NDArray[np.float32]
    sample_rate: int

    @property
    def seconds(self) -> float:
        return int(self.audio.shape[1]) / self.sample_rate


@dataclass(frozen=True, eq=False)
class ClipCard:
    """One clip to look at and listen to."""

    id: str
    seconds: float
    array: NDArray[Any]
    """Codes or latents, `[T, W]`."""
    codebook_size: int | None = None
    """None for latents."""
    caption: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    original: Sound | None = None
    decoded: Sound | None = None


@dataclass(frozen=True, eq=False)
class WrittenClip:
    """A clip that a model wrote, and what it was asked for."""

    id: str
    caption: str
    sound: Sound
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ReportPage:
    """A whole page."""

    title: str
    subtitle: str = ""
    written_by: str = ""
    """The model that wrote the clips of `written`."""
    written: tuple[WrittenClip, ...] = ()
    """Come first."""
    facts: tuple[Fact, ...] = ()
    details: tuple[Fact, ...] = ()
    """Less important facts: the codec, the fingerprint, the path."""
    cards: tuple[ClipCard, ...] = ()
    failures: tuple[FailureRow, ...] = ()
    lengths: LengthHistogram | None = None
    codes: CodeStatistics | None = None
    latents: LatentStatistics | None = None
    statistics_note: str = ""
    """What the statistics were computed from, unless it is every clip."""
