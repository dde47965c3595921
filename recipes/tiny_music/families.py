"""Tell which family of instruments plays: a small network on averages of a mel spectrum, trained on real renders.

A clip is described by the mean and the spread of its cepstrum (the shape of the spectrum), of how that changes, and of
the spectrum right after onsets, where a piano and an organ differ most. The network is trained on renders and on what
the codec makes of them, so that it judges instruments and not the codec; its accuracy on both is part of a report.
"""

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from listening import Sound, mel_bands
from numpy.typing import NDArray
from torch import nn

NUM_BANDS, NUM_CEPSTRA = 48, 24
WINDOW_SECONDS, HOP_SECONDS = 0.043, 0.02
FLOOR_DB = 70.0
"""What is so far below the loudest counts as silence."""
AFTER = (0, 1, 2, 4, 8, 16)
"""Hops after an onset at which the spectrum is looked at."""
HIDDEN, STEPS, RATE, DECAY, NOISE = 96, 400, 5e-3, 1e-2, 0.3


def describe(sound: Sound, sample_rate: int) -> NDArray[np.float32]:
    """Describe the timbre of a clip `[N]`; loudness makes no difference."""
    size, hop = round(WINDOW_SECONDS * sample_rate), round(HOP_SECONDS * sample_rate)
    power = mel_bands(sound, sample_rate, size, hop, NUM_BANDS)
    levels = 10.0 * np.log10(np.maximum(power / max(float(power.max()), 1e-12), 10 ** (-FLOOR_DB / 10)))
    angles = np.pi / NUM_BANDS * (np.arange(NUM_BANDS) + 0.5)[:, None] * np.arange(NUM_CEPSTRA)[None]
    cepstrum = levels @ np.cos(angles) / NUM_BANDS
    change = np.diff(cepstrum, axis=0)
    flux = np.clip(np.diff(levels, axis=0), 0.0, None).mean(axis=1)
    onsets = 1 + np.argsort(flux)[-12:]
    after = [cepstrum[np.minimum(onsets + later, len(cepstrum) - 1)].mean(axis=0) for later in AFTER]
    parts = [cepstrum.mean(axis=0), cepstrum.std(axis=0), change.std(axis=0), np.abs(change).mean(axis=0), *after]
    return np.concatenate([*parts, np.percentile(flux, [10, 50, 90, 99])]).astype(np.float32)


@final
class FamilyClassifier:
    """Says which family a description belongs to."""

    def __init__(self, families: Sequence[str], mean: torch.Tensor, scale: torch.Tensor, network: nn.Module) -> None:
        self.families, self._mean, self._scale, self._network = tuple(families), mean, scale, network

    def classify(self, descriptions: NDArray[np.float32]) -> list[str]:
        """Name the family of every description `[B, W]`."""
        with torch.inference_mode():
            logits = self._network((torch.from_numpy(descriptions) - self._mean) / self._scale)
        return [self.families[place] for place in logits.argmax(dim=1).tolist()]


def train_classifier(descriptions: NDArray[np.float32], families: Sequence[str], seed: int = 0) -> FamilyClassifier:
    """Train on the descriptions `[B, W]` of clips whose families are known."""
    names = sorted(set(families))
    inputs = torch.from_numpy(descriptions)
    wanted = torch.tensor([names.index(family) for family in families])
    mean, scale = inputs.mean(dim=0), inputs.std(dim=0).clamp(min=1e-3)
    inputs = (inputs - mean) / scale
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(inputs.shape[1], HIDDEN), nn.GELU(), nn.Linear(HIDDEN, len(names)))
        optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
        for _ in range(STEPS):
            noisy = inputs + NOISE * torch.randn_like(inputs)
            loss = nn.functional.cross_entropy(network(noisy), wanted, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return FamilyClassifier(names, mean, scale, network.eval())
