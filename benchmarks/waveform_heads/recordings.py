"""Which samples are learned from and which are scored: decided by hashes of names, the same for every contender."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from solfa.audio import Location, read_span
from solfa.audio.probe import probe
from solfa.data.stable_random import stable_key
from solfa.errors import ConfigError

SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff")
HELD_OUT = 10
"""One recording of so many."""


class Recorded(NamedTuple):
    """One recording, mono, in [-1, 1]."""

    name: str
    audio: Tensor
    """`[N]`"""


@dataclass(frozen=True)
class Split:
    """Recordings to learn from, and others to score."""

    train: tuple[Recorded, ...]
    held_out: tuple[Recorded, ...]
    sample_rate: int

    def seconds(self, recordings: Sequence[Recorded]) -> float:
        return sum(len(recording.audio) for recording in recordings) / self.sample_rate


class Excerpts(NamedTuple):
    """Excerpts of held-out recordings, and which recording each is from."""

    audio: Tensor
    """`[B, N]`"""
    recordings: tuple[int, ...]


def list_audio(paths: Sequence[Path]) -> dict[str, Path]:
    """Name every audio file: by its path below the folder that was given, or by its file name."""
    found: dict[str, Path] = {}
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        names = {str(file.relative_to(path)) if path.is_dir() else file.name: file for file in files}
        found |= {name: file for name, file in names.items() if file.suffix.lower() in SUFFIXES}
    return found


def read_split(paths: Sequence[Path], sample_rate: int, min_samples: int) -> Split:
    """Read all recordings of at least `min_samples`, and hold out those that the hash of their names chooses."""
    everything = [read_recording(name, path, sample_rate) for name, path in list_audio(paths).items()]
    long_enough = [recording for recording in everything if len(recording.audio) >= min_samples]
    is_held_out = [stable_key("held out", recording.name) % HELD_OUT == 0 for recording in long_enough]
    train = tuple(recording for recording, held in zip(long_enough, is_held_out, strict=True) if not held)
    held_out = tuple(recording for recording, held in zip(long_enough, is_held_out, strict=True) if held)
    if not train or not held_out:
        raise ConfigError(
            f"{', '.join(map(str, paths))}: expected recordings of {min_samples} samples or more on both sides of the "
            f"split, found {len(train)} to learn from and {len(held_out)} held out; give more recordings"
        )
    return Split(train, held_out, sample_rate)


def read_recording(name: str, path: Path, sample_rate: int) -> Recorded:
    """Read a recording as mono; a lower rate than asked for would leave a part of the band empty, and is refused."""
    location = Location(path, format_hint=path.suffix.lower())
    info = probe(location)
    if info.sample_rate < sample_rate:
        raise ConfigError(
            f"{path}: expected {sample_rate} Hz or more, found {info.sample_rate} Hz, of which the upper band would be "
            f"empty and easy to predict; give --sample-rate {info.sample_rate}"
        )
    return Recorded(name, torch.from_numpy(read_span(location, info, 0, info.num_samples, sample_rate, 1)[0]))


def training_crops(recordings: Sequence[Recorded], seed: int, update: int, num_clips: int, num_samples: int) -> Tensor:
    """Cut the crops of one update, `[B, N]`: which ones depends on nothing but the arguments."""
    crops = []
    for clip in range(num_clips):
        key = stable_key("crop", seed, update, clip)
        audio = recordings[key % len(recordings)].audio
        start = (key >> 64) % (len(audio) - num_samples + 1)
        crops.append(audio[start : start + num_samples])
    return torch.stack(crops)


def held_out_excerpts(recordings: Sequence[Recorded], per_recording: int, num_samples: int) -> Excerpts:
    """Take up to `per_recording` excerpts that do not overlap, at equal distances, of every recording."""
    excerpts, sources = [], []
    for number, recording in enumerate(recordings):
        taken = min(per_recording, len(recording.audio) // num_samples)
        share = len(recording.audio) // taken
        starts = [index * share + (share - num_samples) // 2 for index in range(taken)]
        excerpts += [recording.audio[start : start + num_samples] for start in starts]
        sources += [number] * taken
    return Excerpts(torch.stack(excerpts), tuple(sources))
