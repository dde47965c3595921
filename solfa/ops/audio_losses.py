"""Training losses between a decoded sound and the original: in time, in mel bands, in Fourier magnitudes.

Spectra are centred: one frame every quarter window, `1 + N // hop` in all, with silence beyond the ends, so a clip may
be shorter than a window. Hann windows have unit energy, so noise of variance v has power v at any window length. A
floor is added to powers before logarithms and divisions, which keeps every gradient finite in silence.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Annotated, Literal

import torch
from jaxtyping import Complex, Float
from pydantic import Field
from torch import Tensor

from solfa.config import Config
from solfa.errors import ConfigError
from solfa.ops.frame_spectra import unit_hann
from solfa.ops.mel_spectrogram import mel_filters
from solfa.ops.power_spectrum import OVERLAP, power_spectrum

FLOOR = 1e-5
"""A power, as in EnCodec: that of a sine 72 dB below full scale in a window of 1024 samples."""

AudioLoss = Callable[[Float[Tensor, "B C N"], Float[Tensor, "B C N"]], Float[Tensor, ""]]
"""A function of the estimate and the target."""

Window = Annotated[int, Field(ge=4, multiple_of=4)]
"""Samples per window; the hop is a quarter of it."""


def spectrum(audio: Float[Tensor, "B C N"], window: int, overlap: int = OVERLAP) -> Complex[Tensor, "B C F T"]:
    """Transform windows, `overlap` of which cover every sample; half precision becomes float32."""
    audio = audio.to(torch.promote_types(audio.dtype, torch.float32))
    transformed: Tensor = torch.stft(
        audio.flatten(0, 1),
        window,
        hop_length=window // overlap,
        window=unit_hann(window, audio.dtype, audio.device),
        pad_mode="constant",
        return_complex=True,
    )
    return transformed.reshape(*audio.shape[:2], *transformed.shape[1:])


def mel_power(
    audio: Float[Tensor, "B C N"],
    sample_rate: int,
    window: int,
    num_bands: int,
    min_hz: float = 0.0,
    max_hz: float | None = None,
) -> Float[Tensor, "B C M T"]:
    """Sum the power in mel bands; `max_hz` defaults to half the sample rate."""
    power = power_spectrum(audio, window)
    filters = _filters(num_bands, window, sample_rate, min_hz, max_hz or sample_rate / 2, power.dtype, power.device)
    return (power @ filters.T).mT


def time_loss(
    estimate: Float[Tensor, "B C N"], target: Float[Tensor, "B C N"], *, order: Literal[1, 2] = 1
) -> Float[Tensor, ""]:
    """Average the absolute (1) or squared (2) difference between amplitudes.

    >>> import torch
    >>> from solfa.ops import time_loss
    >>> estimate, target = torch.full((1, 1, 100), 0.5), torch.zeros(1, 1, 100)
    >>> time_loss(estimate, target), time_loss(estimate, target, order=2)
    (tensor(0.5000), tensor(0.2500))
    """
    check_same_shape(estimate, target)
    return _mean_distance(estimate, target, order)


def mel_loss(
    estimate: Float[Tensor, "B C N"],
    target: Float[Tensor, "B C N"],
    *,
    sample_rate: int,
    windows: Sequence[int],
    num_bands: int = 64,
    min_hz: float = 0.0,
    max_hz: float | None = None,
    linear_weight: float = 1.0,
    log_weight: float = 1.0,
    log_order: Literal[1, 2] = 2,
    floor: float = FLOOR,
) -> Float[Tensor, ""]:
    """Compare mel powers and their log10 at several windows (as in EnCodec, Défossez et al. 2022).

    Per window: `linear_weight * mean |S - S'| + log_weight * mean |log10 S - log10 S'| ** log_order`; then the mean
    over the windows.

    >>> import torch
    >>> from solfa.ops import mel_loss
    >>> audio = torch.sin(torch.arange(4000.0) / 10)[None, None]
    >>> mel_loss(audio, audio, sample_rate=16_000, windows=[256, 512])
    tensor(0.)
    >>> mel_loss(audio / 2, audio, sample_rate=16_000, windows=[256, 512]) > 0
    tensor(True)
    """
    check_same_shape(estimate, target)
    total = estimate.new_zeros((), dtype=torch.promote_types(estimate.dtype, torch.float32))
    for window in windows:
        one, other = (mel_power(audio, sample_rate, window, num_bands, min_hz, max_hz) for audio in (estimate, target))
        total = total + linear_weight * _mean_distance(one, other, 1)
        total = total + log_weight * _mean_distance((floor + one).log10(), (floor + other).log10(), log_order)
    return total / len(windows)


def stft_loss(
    estimate: Float[Tensor, "B C N"],
    target: Float[Tensor, "B C N"],
    *,
    windows: Sequence[int],
    convergence_weight: float = 1.0,
    log_weight: float = 1.0,
    floor: float = FLOOR,
) -> Float[Tensor, ""]:
    """Average the distance between magnitudes over several windows (as in Parallel WaveGAN, Yamamoto et al. 2019).

    It is the spectral convergence (the size of the error relative to the target, per clip and channel) plus the mean
    difference between natural logarithms.

    >>> import torch
    >>> from solfa.ops import stft_loss
    >>> audio = torch.sin(torch.arange(4000.0) / 10)[None, None]
    >>> stft_loss(audio, audio, windows=[256, 512])
    tensor(0.)
    >>> stft_loss(audio / 2, audio, windows=[256, 512]) > 0.5
    tensor(True)
    """
    check_same_shape(estimate, target)
    total = estimate.new_zeros((), dtype=torch.promote_types(estimate.dtype, torch.float32))
    for window in windows:
        one, other = spectrum(estimate, window).abs(), spectrum(target, window).abs()
        # A norm, not the root of a mean: it has a gradient where the error is zero.
        error = torch.linalg.vector_norm(one - other, dim=(-2, -1)) / one[0, 0].numel() ** 0.5
        size = (floor + other.square().mean(dim=(-2, -1))).sqrt()
        logarithms = [0.5 * (floor + magnitude.square()).log() for magnitude in (one, other)]
        total = total + convergence_weight * (error / size).mean()
        total = total + log_weight * _mean_distance(logarithms[0], logarithms[1], 1)
    return total / len(windows)


class MelLoss(Config):
    """Mel powers and their logarithms, with several windows.

    >>> import torch
    >>> from solfa.ops import MelLoss
    >>> audio = torch.sin(torch.arange(4000.0) / 10)[None, None]
    >>> loss = MelLoss(windows=(256, 512)).build(sample_rate=16_000)
    >>> loss(audio, audio), loss(audio / 2, audio) > 0
    (tensor(0.), tensor(True))
    """

    kind: Literal["mel"] = "mel"
    windows: tuple[Window, ...] = Field(default=(64, 128, 256, 512, 1024, 2048), min_length=1)
    num_bands: int = Field(default=64, ge=1)
    min_hz: float = Field(default=0.0, ge=0.0)
    max_hz: float | None = Field(default=None, gt=0.0)
    linear_weight: float = Field(default=1.0, ge=0.0)
    log_weight: float = Field(default=1.0, ge=0.0)
    log_order: Literal[1, 2] = 2
    """1 for absolute, 2 for squared differences of the logarithms."""
    floor: float = Field(default=FLOOR, gt=0.0)

    def build(self, sample_rate: int) -> AudioLoss:
        """Build the loss for audio at this rate."""
        highest = self.max_hz or sample_rate / 2
        if not self.min_hz < highest <= sample_rate / 2:
            raise ConfigError(
                f"mel loss: expected min_hz < max_hz <= {sample_rate / 2:g}, half the sample rate, found "
                f"{self.min_hz:g} and {highest:g}; leave out max_hz for the widest range"
            )
        return partial(mel_loss, sample_rate=sample_rate, **self.model_dump(exclude={"kind"}))


class StftLoss(Config):
    """Spectral convergence and log magnitudes, with several windows.

    >>> import torch
    >>> from solfa.ops import StftLoss
    >>> audio = torch.sin(torch.arange(4000.0) / 10)[None, None]
    >>> loss = StftLoss(windows=(256, 512)).build(sample_rate=16_000)
    >>> loss(audio, audio), loss(audio / 2, audio) > 0.5
    (tensor(0.), tensor(True))
    """

    kind: Literal["stft"] = "stft"
    windows: tuple[Window, ...] = Field(default=(512, 1024, 2048), min_length=1)
    convergence_weight: float = Field(default=1.0, ge=0.0)
    log_weight: float = Field(default=1.0, ge=0.0)
    floor: float = Field(default=FLOOR, gt=0.0)

    def build(self, sample_rate: int) -> AudioLoss:
        """Build the loss; it is the same at any rate."""
        return partial(stft_loss, **self.model_dump(exclude={"kind"}))


class TimeLoss(Config):
    """Differences between amplitudes.

    >>> import torch
    >>> from solfa.ops import TimeLoss
    >>> TimeLoss(order=2).build(sample_rate=16_000)(torch.full((1, 1, 100), 0.5), torch.zeros(1, 1, 100))
    tensor(0.2500)
    """

    kind: Literal["time"] = "time"
    order: Literal[1, 2] = 1
    """1 for absolute, 2 for squared differences."""

    def build(self, sample_rate: int) -> AudioLoss:
        """Build the loss; it is the same at any rate."""
        return partial(time_loss, order=self.order)


AnyAudioLoss = Annotated[MelLoss | StftLoss | TimeLoss, Field(discriminator="kind")]


def check_same_shape(estimate: Tensor, target: Tensor) -> None:
    """Refuse sounds of different shapes, which would be broadcast."""
    if estimate.shape != target.shape:
        raise ValueError(
            f"audio loss: expected two sounds of the same shape, found {tuple(estimate.shape)} and "
            f"{tuple(target.shape)}; cut or mix them to the same number of samples and channels"
        )


def _mean_distance(one: Float[Tensor, "*shape"], other: Float[Tensor, "*shape"], order: int) -> Float[Tensor, ""]:
    difference = one - other
    return difference.abs().mean() if order == 1 else difference.square().mean()


@lru_cache(maxsize=64)
def _filters(
    num_bands: int,
    window: int,
    sample_rate: int,
    min_hz: float,
    max_hz: float,
    dtype: torch.dtype,
    device: torch.device,
) -> Float[Tensor, "M F"]:
    with torch.inference_mode(False):
        weights = mel_filters(num_bands, window, sample_rate, max_hz, min_hz)
        return torch.from_numpy(weights).to(dtype).to(device)
