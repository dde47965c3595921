"""A run in TensorBoard: curves, the config as text, generated clips to hear and to see.

Everything is on one axis, the number of updates made, so that values a killed run logged after its last checkpoint can
be taken back: the first training step of a resumed run voids all later values, and each is drawn once.

    train/loss         every few updates
    train_epoch/loss   the mean of an epoch
    valid/loss, ...    at the end of an epoch
    generate/NAME      audio, and its spectrogram
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray

from solfa.generate.clip import GeneratedClip
from solfa.ops.mel_spectrogram import decibels, mel_spectrogram
from solfa.solvers.watchers.protocol import Watcher

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

RANGE_DB = 80.0


class TensorBoardWatcher(Watcher):
    """Writes event files into a folder."""

    def __init__(self, folder: Path, updates_per_epoch: int) -> None:
        self.folder = folder
        self._writer: SummaryWriter | None = None
        self._text = ""
        self._stage, self._epoch = "", 0
        self._updates_per_epoch = updates_per_epoch
        self._is_training = False

    def started(self, folder: Path, hyper_parameters: Mapping[str, Any]) -> None:
        self._text = json.dumps(dict(hyper_parameters), indent=2, ensure_ascii=False, default=str)

    def stage_started(self, stage: str, epoch: int, total: int | None) -> None:
        self._stage, self._epoch = stage, epoch

    def step(self, done: int, metrics: Mapping[str, float]) -> None:
        if self._stage != "train":
            return
        update = (self._epoch - 1) * self._updates_per_epoch + done
        if not self._is_training:
            self._is_training = True
            self._open(purge_step=update)
        self._write("train", metrics, update)

    def stage_finished(self, stage: str, epoch: int, metrics: Mapping[str, float], seconds: float) -> None:
        self._write("train_epoch" if stage == "train" else stage, metrics, epoch * self._updates_per_epoch)
        self._events().flush()

    def clips(self, stage: str, epoch: int, clips: Sequence[GeneratedClip]) -> None:
        writer, update = self._events(), epoch * self._updates_per_epoch
        for clip in clips:
            audio = clip.samples()
            tag = f"{stage}/{clip.name}"
            mono = torch.from_numpy(audio.mean(axis=0, keepdims=True))
            writer.add_audio(tag, mono, update, sample_rate=clip.sample_rate)
            writer.add_image(tag, spectrogram_image(audio, clip.sample_rate), update, dataformats="HW")
            if clip.metadata:
                writer.add_text(tag, _as_code(json.dumps(dict(clip.metadata), indent=2, default=str)), update)
        writer.flush()

    def closed(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, part: str, metrics: Mapping[str, float], update: int) -> None:
        for name, value in metrics.items():
            self._events().add_scalar(f"{part}/{name}", value, update)

    def _events(self) -> "SummaryWriter":
        return self._writer or self._open(purge_step=None)

    def _open(self, purge_step: int | None) -> "SummaryWriter":
        """Start a new file; a run that only evaluates must not void anything, so it does not purge."""
        from torch.utils.tensorboard import SummaryWriter  # here, because a run begins sooner without it

        self.closed()
        self._writer = SummaryWriter(str(self.folder), purge_step=purge_step)
        if self._text:
            self._writer.add_text("hyper_parameters", _as_code(self._text), 0)
            self._text = ""
        return self._writer


def _as_code(text: str) -> str:
    """Indent, so that Markdown leaves the text alone."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def spectrogram_image(audio: NDArray[np.float32], sample_rate: int) -> UInt8[np.ndarray, "F W"]:
    """Draw `[C, N]` audio in grey, low frequencies at the bottom, `RANGE_DB` below its loudest in black."""
    mono = np.nan_to_num(audio.mean(axis=0), nan=0.0, posinf=1.0, neginf=-1.0)
    fft_size = 1 << int(np.log2(max(256, 0.046 * sample_rate)))
    hop = max(32, fft_size // 4)
    levels = decibels(mel_spectrogram(mono, sample_rate, num_bands=128, fft_size=fft_size, hop_length=hop))
    brightness = np.clip((levels[::-1] - levels.max()) / RANGE_DB + 1.0, 0.0, 1.0)
    return np.asarray(np.round(255.0 * brightness), np.uint8)
