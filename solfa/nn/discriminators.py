"""Discriminators that look at spectra: the multi-scale STFT discriminator of EnCodec (Défossez et al. 2022).

    audio ──► STFT ──► magnitudes compressed ──► real and imaginary parts as channels [B, 2C, T, F]
          ──► conv 3x9 ──► conv 3x9, stride 2 in frequency, dilated in time (once per dilation) ──► conv 3x3 ──► logits

One such network per window. Leaky ReLU and a feature map follow every convolution but the last. Spectra are centred, so
a sound may be shorter than a window: any length from one sample works.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from solfa.config import Config
from solfa.ops.audio_losses import Window, spectrum

LEAK = 0.2
KERNEL = (3, 9)
"""In frames and frequency bins."""
SMALLEST = 1e-3
"""Spectra of smaller magnitudes are only multiplied, so that slopes stay finite; a sine at full scale has about 10."""


class Judgement(NamedTuple):
    """The verdict of one discriminator, and its feature maps."""

    logits: Float[Tensor, "B 1 T F"]
    """High where the sound seems real."""
    features: list[Float[Tensor, "B D T _"]]


class StftDiscriminatorConfig(Config):
    """Discriminators with several windows."""

    kind: Literal["ms_stft"] = "ms_stft"
    num_filters: int = Field(default=32, ge=1)
    windows: tuple[Window, ...] = Field(default=(2048, 1024, 512, 256, 128), min_length=1)
    dilations: tuple[PositiveInt, ...] = (1, 2, 4)
    """In time, one layer each."""
    overlap: Literal[2, 4] = 4
    """How many windows cover each sample; 2 halves the time."""
    first_stride: Literal[1, 2] = 1
    """In frequency, of the first layer; 2 halves the time."""
    compression: float = Field(default=1.0, gt=0, le=1)
    """The exponent of magnitudes, phases stay: 1 shows spectra as they are; with 0.3 quiet bins are seen, too."""

    def build(self, num_channels: int) -> "MultiScaleStftDiscriminator":
        """Build the discriminators for a number of audio channels."""
        return MultiScaleStftDiscriminator(self, num_channels)


class StftDiscriminator(nn.Module):
    """Judges the complex spectrum of one window."""

    def __init__(self, config: StftDiscriminatorConfig, num_channels: int, window: int) -> None:
        super().__init__()
        self.window, self.overlap, self.compression = window, config.overlap, config.compression
        num_filters, small = config.num_filters, (KERNEL[0], KERNEL[0])
        self.layers = nn.ModuleList(
            [
                _conv(2 * num_channels, num_filters, KERNEL, stride=config.first_stride),
                *(_conv(num_filters, num_filters, KERNEL, stride=2, dilation=factor) for factor in config.dilations),
                _conv(num_filters, num_filters, small),
            ]
        )
        self.last = _conv(num_filters, 1, small)

    def forward(self, audio: Float[Tensor, "B C N"]) -> Judgement:
        transformed = spectrum(audio, self.window, self.overlap).transpose(-2, -1)
        if self.compression != 1:
            transformed = transformed * (transformed.abs() + SMALLEST).pow(self.compression - 1)
        x = torch.cat([transformed.real, transformed.imag], dim=1)
        # With few channels and large images, channels-last convolutions take half the time on CPUs.
        x = x.to(next(self.parameters()).dtype, memory_format=torch.channels_last)
        features = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), LEAK)
            features.append(x)
        return Judgement(self.last(x), features)


class MultiScaleStftDiscriminator(nn.Module):
    """One discriminator per window; judgements are in the order of the windows.

    >>> import torch
    >>> from solfa.nn import MultiScaleStftDiscriminator, StftDiscriminatorConfig
    >>> config = StftDiscriminatorConfig(num_filters=2, windows=(64, 32))
    >>> discriminators = MultiScaleStftDiscriminator(config, num_channels=1)
    >>> [judgement.logits.shape[0] for judgement in discriminators(torch.zeros(3, 1, 256))]
    [3, 3]
    """

    def __init__(self, config: StftDiscriminatorConfig, num_channels: int) -> None:
        super().__init__()
        self.num_channels = num_channels
        self.scales = nn.ModuleList(StftDiscriminator(config, num_channels, window) for window in config.windows)

    def forward(self, audio: Float[Tensor, "B C N"]) -> list[Judgement]:
        if audio.shape[1] != self.num_channels or audio.shape[2] == 0:
            raise ValueError(
                f"discriminator: expected audio with {self.num_channels} channels and at least one sample, found "
                f"{tuple(audio.shape)}"
            )
        return [scale(audio) for scale in self.scales]


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Let gradients through a module without keeping any for its parameters, for forward passes inside the context.

        discriminator step: discriminator(real), discriminator(fake.detach())     gradients of its parameters
        generator step:     with frozen(discriminator): discriminator(fake)       gradients of `fake` only

    Finish one step (backward and update) before the forward pass of the other. If a wrapper synchronises gradients
    between processes, freeze and call the module inside it, because there is nothing to synchronise.
    """
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    try:
        for parameter in parameters:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


def _conv(
    in_channels: int, out_channels: int, kernel: tuple[int, int], stride: int = 1, dilation: int = 1
) -> nn.Conv2d:
    padding = (kernel[0] // 2 * dilation, kernel[1] // 2)
    conv = nn.Conv2d(in_channels, out_channels, kernel, (1, stride), padding, dilation=(dilation, 1))
    weight_norm(conv)
    return conv
