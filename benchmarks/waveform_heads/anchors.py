"""What costs nothing, or seconds: bits per sample to know before believing those of a network.

`uniform` and `unigram` know nothing of the past. Linear prediction of order 32 comes twice: one predictor for all, with
a mixture of logistics of its residual; and one computed anew every 16 ms from the 40 ms before, with a mixture that is
as wide as recent residuals were. Neither reads anything that a network does not. FLAC (level 8) may look ahead within a
block of 4,096 samples, and pays for what it then writes down.
"""

import io
import math
from collections.abc import Sequence

import numpy as np
import soundfile
import torch
from numpy.typing import NDArray
from torch import Tensor

from solfa.models import LogisticMixture
from solfa.ops import cells_on
from solfa.ops.class_grid import Grid
from solfa.ops.logistic_mixture import interval_log_prob

from .contenders import LINEAR8, LINEAR12, LINEAR16, MULAW8
from .recordings import Recorded, training_crops
from .scoring import COMMON, LINE, OWN, averages, cell_nats

Floats = NDArray[np.float64]
ORDER = 32
FRAME, WINDOW = 256, 640
NUM_MIXTURES = 10
FIT_CROPS, FIT_STEPS, FIT_SAMPLES = 96, 300, 8192
DECAYS = (0.9, 0.99)
"""Of the two running averages of squared residuals: over 10 and over 100 samples."""

Anchors = dict[str, dict[str, dict[str, float]]]
"""By the name of the anchor and of the grid that it reads: bits per sample by the cells that are scored."""


def measure_anchors(train: Sequence[Recorded], audio: Tensor, sample_rate: int) -> Anchors:
    """Score all anchors on the excerpts `[B, N]`."""
    crops = training_crops(train, 0, 0, FIT_CROPS, audio.shape[1])
    everything = torch.cat([recording.audio for recording in train])
    grids: dict[str, Grid] = {"mulaw8": MULAW8, "linear8": LINEAR8, "linear12": LINEAR12, "linear16": LINEAR16}
    return {
        "uniform": {name: {OWN: float(grid.bits)} for name, grid in grids.items()},
        "unigram": {name: {OWN: unigram_bits(everything, audio, grid)} for name, grid in grids.items()},
        "one predictor": {name: _predicted(crops, audio, grid, is_adaptive=False) for name, grid in grids.items()},
        "adaptive predictor": {name: _predicted(crops, audio, grid, is_adaptive=True) for name, grid in grids.items()},
        "flac": {name: {OWN: flac_bits(grid.to_classes(audio), grid, sample_rate)} for name, grid in grids.items()},
    }


def unigram_bits(train: Tensor, audio: Tensor, grid: Grid) -> float:
    """Score frequencies of classes, counted in `train` and one added to each."""
    counts = torch.bincount(grid.to_classes(train), minlength=grid.num_classes).double() + 1
    return float(-(counts / counts.sum()).log2()[grid.to_classes(audio)].mean())


def flac_bits(classes: Tensor, grid: Grid, sample_rate: int) -> float:
    """Give the bits per sample of a FLAC file of all excerpts; 12 bits are 16 of which four are always zero."""
    width = 8 if grid.bits <= 8 else 16
    centred = (classes.flatten() - grid.num_classes // 2).numpy() << (16 - grid.bits)
    file = io.BytesIO()
    subtype = "PCM_S8" if width == 8 else "PCM_16"
    soundfile.write(file, centred.astype(np.int16), sample_rate, subtype, format="FLAC", compression_level=1.0)
    return 8 * len(file.getvalue()) / classes.numel()


def _predicted(crops: Tensor, audio: Tensor, grid: Grid, is_adaptive: bool) -> dict[str, float]:
    rounded = [grid.to_audio(grid.to_classes(part)).double().numpy() for part in (crops, audio)]
    predictor = global_predictor(rounded[0])
    predictions = [
        adaptive_prediction(part, 1 / grid.num_classes) if is_adaptive else past_samples(part) @ predictor
        for part in rounded
    ]
    features = [
        recent_levels(part - predicted, 1 / grid.num_classes) if is_adaptive else np.zeros((*part.shape, 2))
        for part, predicted in zip(rounded, predictions, strict=True)
    ]
    residual = ResidualMixture()
    residual.fit(torch.from_numpy(predictions[0]), torch.from_numpy(features[0]), grid.to_classes(crops), grid)
    mixture = residual.mixture(torch.from_numpy(predictions[1]), torch.from_numpy(features[1]))
    scored = {OWN: grid, **COMMON}
    nats = {name: cell_nats(mixture, LINE, cells, cells.to_classes(audio)) for name, cells in scored.items()}
    return averages({name: (found / math.log(2)).mean(dim=1).tolist() for name, found in nats.items()})


def global_predictor(audio: Floats) -> Floats:
    """Fit the next sample of `[B, N]` by least squares to the ORDER samples before it, the latest first."""
    past = past_samples(audio).reshape(-1, ORDER)
    gram = past.T @ past
    solved: Floats = np.linalg.solve(gram + 1e-9 * np.trace(gram) * np.eye(ORDER), past.T @ audio.reshape(-1))
    return solved


def past_samples(audio: Floats) -> Floats:
    """Give the ORDER samples before each of `[B, N]`, the latest first, and silence before the first."""
    padded = np.pad(audio, ((0, 0), (ORDER, 0)))[:, :-1]
    return np.lib.stride_tricks.sliding_window_view(padded, ORDER, axis=1)[..., ::-1]


def adaptive_prediction(audio: Floats, noise: float) -> Floats:
    """Predict each frame of `[B, N]` by the autocorrelation of the WINDOW samples before it, tapered into the past.

    `noise` is about the error of rounding: it keeps the equations solvable where there was silence.
    """
    assert audio.shape[1] % FRAME == 0, "excerpts are whole frames"
    padded = np.pad(audio, ((0, 0), (WINDOW, 0)))
    ends = np.arange(0, audio.shape[1], FRAME)
    taper = np.sin(np.pi / 2 * np.minimum(1, (np.arange(WINDOW) + 0.5) / (WINDOW // 2))) ** 2
    windows = np.stack([padded[:, end : end + WINDOW] for end in ends], axis=1) * taper
    spectrum = np.abs(np.fft.rfft(windows, 2 * WINDOW)) ** 2
    correlation = np.fft.irfft(spectrum)[..., : ORDER + 1]
    correlation[..., 0] = correlation[..., 0] * (1 + 1e-5) + WINDOW * noise**2 / 3
    lags = np.abs(np.subtract.outer(np.arange(ORDER), np.arange(ORDER)))
    predictors = np.linalg.solve(correlation[..., lags], correlation[..., 1:, None])
    framed = past_samples(audio).reshape(len(audio), len(ends), FRAME, ORDER)
    predicted: Floats = (framed @ predictors)[..., 0].reshape(audio.shape)
    return predicted


def recent_levels(residual: Floats, noise: float) -> Floats:
    """Give the logarithms of two running averages of the residual before each sample, `[B, N, 2]`."""
    running = np.zeros((*residual.shape, len(DECAYS)))
    decays = np.asarray(DECAYS)
    for step in range(1, residual.shape[1]):
        running[:, step] = decays * running[:, step - 1] + (1 - decays) * residual[:, step - 1, None] ** 2
    levels: Floats = np.log(running + noise**2) / 2
    return levels


class ResidualMixture:
    """A mixture of logistics of amplitudes, around a prediction, as wide as a learned power of recent levels says."""

    def __init__(self) -> None:
        spread = torch.linspace(-3, 1, NUM_MIXTURES, dtype=torch.float64)
        self.logits, self.offsets = torch.zeros_like(spread), torch.zeros_like(spread)
        self.log_scales, self.powers = spread, torch.full((2,), 0.5, dtype=torch.float64)

    def mixture(self, predictions: Tensor, features: Tensor) -> LogisticMixture:
        level = (features * self.powers).sum(dim=-1, keepdim=True)
        shape = (*predictions.shape, NUM_MIXTURES)
        means = predictions[..., None] + level.exp() * self.offsets
        return LogisticMixture(self.logits.expand(shape), means, level + self.log_scales)

    def fit(self, predictions: Tensor, features: Tensor, classes: Tensor, grid: Grid) -> None:
        """Maximise the likelihood of classes, given what came before each."""
        if not features.any():
            error = (grid.to_audio(classes) - predictions).abs().mean()
            self.log_scales = self.log_scales + error.log()
        lower, upper = cells_on(LINE, grid)
        parameters = [self.logits, self.offsets, self.log_scales, self.powers]
        for parameter in parameters:
            parameter.requires_grad_()
        optimizer = torch.optim.Adam(parameters, 0.05)
        generator = torch.Generator().manual_seed(0)
        predictions, features, classes = predictions.flatten(), features.flatten(0, 1), classes.flatten()
        for step in range(FIT_STEPS):
            optimizer.param_groups[0]["lr"] = 0.05 * (1 - step / FIT_STEPS)
            some = torch.randint(len(classes), (FIT_SAMPLES,), generator=generator)
            mixture = self.mixture(predictions[some], features[some])
            loss = -interval_log_prob(*mixture, lower[classes[some]], upper[classes[some]]).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
        for parameter in parameters:
            parameter.requires_grad_(False)
