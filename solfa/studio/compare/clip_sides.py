"""What can be compared: the clips of a folder, of a run's epoch, of a dataset, or the recordings it was made from.

Clips of two sides are paired by their names, without extension.
"""

import io
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol, final

import numpy as np
import soundfile

from solfa.audio.probe import probe
from solfa.audio.reader import read_audio
from solfa.audio.recording import Location
from solfa.errors import ConfigError
from solfa.studio.context import Studio
from solfa.studio.datasets.clip_sounds import Version
from solfa.studio.datasets.shelf import ShelvedDataset
from solfa.ui.html.excerpt import flac
from solfa.ui.html.report_data import Sound
from solfa.xp.layout import SAMPLES
from solfa.xp.record import CLIP_SUFFIXES, find_experiment

ORIGINAL = " (originals)"
"""What is typed after a dataset's name for the recordings that it was made from."""
ANCHOR_HZ = 3500.0
"""The low anchor of ITU-R BS.1534 has nothing above."""
_RUN = re.compile(r"(?P<signature>[^@/]+)(@(?P<epoch>\d+))?")


class Side(Protocol):
    """Clips by name."""

    def names(self) -> list[str]:
        """List the names, sorted."""
        ...

    def sound(self, name: str) -> bytes:
        """Return a clip as FLAC."""
        ...


@final
class FolderSide:
    """The audio files of a folder, and of the folders in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def _files(self) -> Mapping[str, Path]:
        found = (path for path in sorted(self._folder.rglob("*")) if path.suffix.lower() in CLIP_SUFFIXES)
        return {pair_name(path.relative_to(self._folder).as_posix()): path for path in found if path.is_file()}

    def names(self) -> list[str]:
        return sorted(self._files)

    def sound(self, name: str) -> bytes:
        return flac(read_sound(self._files[name]))


@final
class DatasetSide:
    """The clips of a dataset as they are decoded, or the recordings that they were made from."""

    def __init__(self, shelved: ShelvedDataset, version: Version) -> None:
        self._shelved, self._version = shelved, version

    @cached_property
    def _ids(self) -> Mapping[str, str]:
        return {pair_name(clip.id): clip.id for clip in self._shelved.view.dataset}

    def names(self) -> list[str]:
        return sorted(self._ids)

    def sound(self, name: str) -> bytes:
        clip = self._shelved.view.dataset[self._ids[name]]
        return self._shelved.sounds.sound(clip, self._version)


@final
class AnchorSide:
    """Another side without its high frequencies: what is surely worse."""

    def __init__(self, reference: Side) -> None:
        self._reference = reference

    def names(self) -> list[str]:
        return self._reference.names()

    def sound(self, name: str) -> bytes:
        audio, sample_rate = soundfile.read(io.BytesIO(self._reference.sound(name)), dtype="float32", always_2d=True)
        return flac(Sound(low_pass(audio.T, sample_rate, ANCHOR_HZ), sample_rate))


def low_pass(audio: np.ndarray, sample_rate: int, cutoff_hz: float) -> np.ndarray:
    """Take away everything above a frequency."""
    spectrum = np.fft.rfft(audio.astype(np.float64), axis=1)
    spectrum[:, np.fft.rfftfreq(audio.shape[1], 1 / sample_rate) > cutoff_hz] = 0
    return np.fft.irfft(spectrum, audio.shape[1], axis=1).astype(np.float32)


def read_sound(path: Path) -> Sound:
    """Read a file."""
    return Sound(read_audio(path), probe(Location(path, format_hint=path.suffix.lower())).sample_rate)


def pair_name(name: str) -> str:
    """Return the name by which clips are paired: without extension."""
    path = PurePosixPath(name)
    return str(path.with_suffix("")) if path.suffix.lower() in CLIP_SUFFIXES else name


def find_side(studio: Studio, text: str, words: str) -> Side:
    """Find what somebody typed: a dataset of the studio, a run (SIG, or SIG@EPOCH), or a folder."""
    for shelved in studio.shelf:
        if text == shelved.name:
            return DatasetSide(shelved, "decoded")
        if text == shelved.name + ORIGINAL:
            return DatasetSide(shelved, "original")
    run = _RUN.fullmatch(text)
    if run is not None:
        try:
            folder = find_experiment(studio.xps_dir, run["signature"]) / SAMPLES
        except ConfigError:
            if not Path(text).is_dir():
                raise ConfigError(
                    f"{words}: expected a dataset of this studio, a run (SIG or SIG@EPOCH) or a folder, found {text!r}"
                ) from None
        else:
            return FolderSide(_epoch_folder(folder, run["epoch"], words))
    folder = Path(text).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"{words}: expected a folder of clips, found none at {text!r}")
    return FolderSide(folder)


def _epoch_folder(samples: Path, epoch: str | None, words: str) -> Path:
    there = [int(child.name) for child in samples.iterdir() if child.name.isdecimal()] if samples.is_dir() else []
    if not there or (epoch is not None and int(epoch) not in there):
        found = f"those of epochs {', '.join(map(str, sorted(there)))}" if there else "none"
        raise ConfigError(f"{words}: expected clips in {samples}{f'/{epoch}' if epoch else ''}, found {found}")
    return samples / str(max(there) if epoch is None else int(epoch))
