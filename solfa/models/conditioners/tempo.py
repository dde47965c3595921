"""The tempo of a clip as a clock: the model is told at every step where in the beat it is.

    "slow piano chords, 80 bpm" ──► 80 ──► beats per step ──► the model's clock (solfa.nn.beat_clock)

That a clip begins with a beat is up to the data.
"""

import logging
import math
import re
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from solfa.models.conditioners.protocol import AttributeConfig, Condition, Tokens

logger = logging.getLogger(__name__)

PARTS = 1_000
"""Parts of a beat per minute. Integers, because low-precision wrappers round every float they are given."""
_NUMBER = r"(\d+(?:\.\d+)?)"
_IN_TEXT = re.compile(rf"{_NUMBER}\s*(?:bpm\b|beats\s+(?:per|a)\s+minute)|\b(?:bpm|tempo)\s*[:=]?\s*{_NUMBER}", re.I)


class TempoConfig(AttributeConfig):
    """Beats per minute: the number that a text calls so, or a metadata column of numbers."""

    kind: Literal["tempo"]
    source: str = "caption"
    fuse: Literal["clock"] = "clock"
    min: float = Field(default=30.0, gt=0)
    max: float = Field(default=300.0, gt=0)
    """What is slower or faster counts as the nearest."""
    frame_rate: float | None = Field(default=None, gt=0)
    """Steps per second; null: as many as the dataset's codec has."""

    @model_validator(mode="after")
    def _has_a_range(self) -> "TempoConfig":
        if not self.min < self.max:
            raise ValueError(f"expected min below max, found {self.min:g} and {self.max:g}")
        return self

    def build(self, dim: int) -> "TempoConditioner":
        return TempoConditioner(self)


def tempo_of(text: str) -> float | None:
    """Find the beats per minute that a text names; None if there are none.

    >>> from solfa.models.conditioners.tempo import tempo_of
    >>> tempo_of("slow piano chords in A minor, 80 bpm"), tempo_of("120"), tempo_of("808 drums")
    (80.0, 120.0, None)
    """
    found = re.fullmatch(rf"\s*{_NUMBER}\s*", text) or _IN_TEXT.search(text)
    return None if found is None else float(next(number for number in found.groups() if number))


class TempoConditioner(nn.Module):
    """One pulse per clip, in beats per step; it has nothing to learn."""

    def __init__(self, config: TempoConfig) -> None:
        super().__init__()
        self.config = config
        self._reported: set[str] = set()
        # Says where the model is: there is no parameter that would.
        self.register_buffer("_place", torch.zeros(()), persistent=False)

    def tokenize(self, values: Sequence[Any | None]) -> Tokens:
        """Return the tempo of each clip in parts of a beat per minute, -1 if it is unknown."""
        found = [self._tempo(value) for value in values]
        parts = [-1 if bpm is None else round(bpm * PARTS) for bpm in found]
        return {"parts": torch.tensor(parts, dtype=torch.int64)}

    def spell(self, value: Any | None) -> str:
        """Write the tempo that a value counts as."""
        bpm = self._tempo(value)
        return "" if bpm is None else f"{bpm:g} bpm"

    def embed(self, tokens: Tokens) -> Condition:
        """Return pulses as `[B, 1, 1]`, zero where the tempo is unknown."""
        assert self.config.frame_rate is not None, "a model knows its frame rate when it is built"
        assert isinstance(self._place, Tensor)
        parts = tokens["parts"].to(self._place.device)
        known = parts[:, None] >= 0
        pulses = parts[:, None].float() / (60 * PARTS * self.config.frame_rate)
        return Condition(pulses.masked_fill(~known, 0.0)[..., None], known)

    def _tempo(self, value: Any | None) -> float | None:
        if value is not None and not isinstance(value, str | Real) and repr(value) not in self._reported:
            self._reported.add(repr(value))
            told = "tempo of %r: expected a number or a text, found %r; it counts as absent"
            logger.warning(told, self.config.source, value)
        bpm = tempo_of(value) if isinstance(value, str) else float(value) if isinstance(value, Real) else None
        if bpm is None or not math.isfinite(bpm):
            return None
        kept = min(max(bpm, self.config.min), self.config.max)
        if kept != bpm and repr(bpm) not in self._reported:
            self._reported.add(repr(bpm))
            logger.warning("tempo of %r: %g bpm counts as %g, the nearest in training", self.config.source, bpm, kept)
        return kept
