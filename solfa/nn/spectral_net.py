"""An encoder and a decoder that work on short-time spectra, at the frame rate (like Vocos, arXiv 2306.00814).

    encoder   audio -> spectra -> linear -> ConvNeXt blocks -> linear -> latents
    decoder   latents -> linear -> ConvNeXt blocks -> linear -> magnitudes and phases -> audio

No layer runs at the audio rate, so on a CPU it is many times faster than convolutions over samples. A frame sees its
window and, through each block, a few more frames on both sides: there is no state, and the network is not causal.
"""

from typing import Literal

import torch
from jaxtyping import Complex, Float
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from solfa.config import Config
from solfa.nn.convnext import ConvNextStack
from solfa.ops.frame_spectra import to_audio, to_spectra

SMALLEST = 1e-3
"""The magnitude below which the encoder sees no difference; a full-scale sine has about 15."""
LARGEST_LOG = 5.0
"""The decoder's largest magnitude: ten times that of a full-scale sine."""
COMPRESSION = 0.3
"""The exponent that compresses magnitudes when the encoder reads real and imaginary parts."""


class SpectralConfig(Config):
    """The size of an encoder and a decoder on spectra."""

    kind: Literal["spectral"] = "spectral"
    hop_length: PositiveInt = 320
    """Samples per frame."""
    window: PositiveInt = 1280
    """Samples that a spectrum sees; exceeds the hop by an even number."""
    dim: PositiveInt = 128
    """The width of the latents."""
    encoder_width: PositiveInt = 256
    encoder_blocks: int = Field(default=4, ge=0)
    decoder_width: PositiveInt = 384
    decoder_blocks: int = Field(default=8, ge=0)
    expansion: PositiveInt = 3
    """By what factor the inside of a block is wider."""
    kernel_size: int = Field(default=7, ge=1)
    """How many frames a block mixes; odd."""

    @model_validator(mode="after")
    def _check(self) -> "SpectralConfig":
        if self.window <= self.hop_length or (self.window - self.hop_length) % 2:
            raise ValueError(
                f"expected a window that exceeds hop_length {self.hop_length} by an even number, found {self.window}"
            )
        if self.kernel_size % 2 == 0:
            raise ValueError(f"expected an odd kernel_size, found {self.kernel_size}")
        return self

    @property
    def num_bins(self) -> int:
        """The number of frequencies in a spectrum."""
        return self.window // 2 + 1

    def build_encoder(self, num_channels: int) -> "SpectralEncoder":
        return SpectralEncoder(self, num_channels)

    def build_decoder(self, num_channels: int) -> "SpectralDecoder":
        return SpectralDecoder(self, num_channels)


class SpectralEncoder(nn.Module):
    """Audio to T = ceil(N / hop_length) latents."""

    def __init__(self, config: SpectralConfig, num_channels: int) -> None:
        super().__init__()
        self.config = config
        width = config.encoder_width
        self.embed = nn.Linear(3 * num_channels * config.num_bins, width)
        self.stack = ConvNextStack(width, config.expansion * width, config.encoder_blocks, config.kernel_size)
        self.last = nn.Linear(width, config.dim)

    def forward(self, audio: Float[Tensor, "B C N"]) -> Float[Tensor, "B D T"]:
        spectra = to_spectra(audio, self.config.window, self.config.hop_length)
        x = self.stack(self.embed(features_of(spectra).to(self.embed.weight.dtype)))
        latents: Tensor = self.last(x)
        return latents.mT


class SpectralDecoder(nn.Module):
    """T latents to T * hop_length samples."""

    def __init__(self, config: SpectralConfig, num_channels: int) -> None:
        super().__init__()
        self.config, self.num_channels = config, num_channels
        width = config.decoder_width
        self.embed = nn.Linear(config.dim, width)
        self.stack = ConvNextStack(width, config.expansion * width, config.decoder_blocks, config.kernel_size)
        self.last = nn.Linear(width, 2 * num_channels * config.num_bins)

    def forward(self, latents: Float[Tensor, "B D T"]) -> Float[Tensor, "B C N"]:
        x: Tensor = self.last(self.stack(self.embed(latents.mT)))
        per_channel = x.view(*x.shape[:2], self.num_channels, -1).transpose(1, 2)
        spectra = spectra_of(per_channel.flatten(0, 1))
        audio = to_audio(spectra, self.config.window, self.config.hop_length)
        return audio.view(len(x), self.num_channels, -1).to(latents.dtype)


def features_of(spectra: Complex[Tensor, "B C T F"]) -> Float[Tensor, "B T f"]:
    """Describe spectra by log magnitudes, and by real and imaginary parts with compressed magnitudes."""
    magnitude = spectra.abs()
    compressed = spectra * (magnitude + SMALLEST).pow(COMPRESSION - 1)
    parts = torch.cat([(magnitude + SMALLEST).log(), compressed.real, compressed.imag], dim=-1)
    return parts.transpose(1, 2).flatten(2)


def spectra_of(numbers: Float[Tensor, "B T f"]) -> Complex[Tensor, "B T F"]:
    """Turn log magnitudes and phases into spectra, in at least float32."""
    exact = numbers.to(torch.promote_types(numbers.dtype, torch.float32))
    log_magnitude, phase = exact.chunk(2, dim=-1)
    return torch.polar(log_magnitude.clamp(max=LARGEST_LOG).exp(), phase)
