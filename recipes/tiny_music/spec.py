"""What a piece is, before a note is written: drawn from a seed and a number alone.

What a caption says of key, pattern and instrument together is either trained on or held out, by a hash: a model that
plays a held-out piece has never met that combination.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from harmony import all_keys
from orchestra import BEATS, DRUMS, FAMILIES, INSTRUMENTS, Instrument

SLOWEST, FASTEST = 70, 139
"""Beats per minute. Less than an octave, so that a tempo and its double are never both possible."""
SECONDS = 10.0
LAST_SECONDS = 9.0
"""The last bar line is at most this late, so that the last chord can be heard."""
HELD_OUT_SHARE = 0.08
DENSITIES = ("sparse", "medium", "busy")
PATTERNS = ("chords", "arpeggio", "melody")

Split = Literal["train", "valid", "held-out"]
T = TypeVar("T")


@dataclass(frozen=True)
class Spec:
    """The attributes that a piece is composed from."""

    instrument: Instrument
    pattern: str
    """How it is played; of drums, the style."""
    tonic: int
    mode: str
    """Of drums, the key means nothing."""
    bpm: int
    beats_per_bar: int
    density: str

    @property
    def is_drums(self) -> bool:
        return self.instrument == DRUMS

    @property
    def beat_seconds(self) -> float:
        return 60.0 / self.bpm

    @property
    def num_bars(self) -> int:
        """Whole bars before the last chord."""
        return int(LAST_SECONDS / (self.beats_per_bar * self.beat_seconds))

    @property
    def combination(self) -> str:
        """What decides on which side the piece is; of drums, tempo stands for the key."""
        told = (self.bpm // 5,) if self.is_drums else (self.tonic, self.mode)
        return "/".join(map(str, (self.instrument.name, self.pattern, *told)))

    @property
    def is_held_out(self) -> bool:
        digest = hashlib.sha256(self.combination.encode()).digest()
        return int.from_bytes(digest[:8]) / 2**64 < HELD_OUT_SHARE


def piece_rng(seed: int, split: Split, number: int) -> np.random.Generator:
    """Return the random numbers of one piece."""
    return np.random.default_rng([seed, ("train", "valid", "held-out").index(split), number])


def draw_spec(rng: np.random.Generator, split: Split) -> Spec:
    """Draw attributes until they are on the right side."""
    while True:
        spec = _draw(rng)
        if spec.is_held_out == (split != "train"):
            return spec


def _draw(rng: np.random.Generator) -> Spec:
    family = str(rng.choice(FAMILIES))
    instrument = DRUMS if family == DRUMS.family else _one(rng, [one for one in INSTRUMENTS if one.family == family])
    beats_per_bar = 3 if rng.random() < 0.12 else 4
    tonic, mode = _one(rng, all_keys())
    is_drums = instrument == DRUMS
    return Spec(
        instrument=instrument,
        pattern=str(rng.choice([*BEATS[beats_per_bar]] if is_drums else PATTERNS)),
        tonic=tonic,
        mode=mode,
        bpm=int(rng.integers(SLOWEST, FASTEST + 1)),
        beats_per_bar=beats_per_bar,
        density="medium" if is_drums else str(rng.choice(DENSITIES, p=[0.25, 0.5, 0.25])),
    )


def _one(rng: np.random.Generator, choices: Sequence[T]) -> T:
    return choices[int(rng.integers(len(choices)))]
