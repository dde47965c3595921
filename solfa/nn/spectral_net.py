"""An encoder and a decoder that work on short-time spectra, at the frame rate (like Vocos, arXiv 2306.00814).

    encoder   audio -> spectra -> linear -> ConvNeXt blocks -> linear -> latents
    decoder   latents -> linear -> ConvNeXt blocks -> linear -> magnitudes and phases -> audio

With `direct_coefficients`, the waveform of the lowest band passes beside the blocks, so that the latents carry it from
the first update on, and the blocks have only to correct it:

    encoder   lowest MDCT coefficients, compressed -> linear -> added to the latents
    decoder   latents -> linear, plus as many numbers from the blocks -> expanded -> MDCT to audio -> added to the audio

No layer runs at the audio rate, so on a CPU it is many times faster than convolutions over samples. A frame sees its
window and, through each block, a few more frames on both sides: there is no state, and the network is not causal.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Complex, Float
from pydantic import Field, PositiveInt, model_serializer, model_validator
from torch import Tensor, nn

from solfa.config import Config
from solfa.nn.convnext import ConvNextStack
from solfa.ops.frame_spectra import to_audio, to_spectra
from solfa.ops.mdct import from_mdct, to_mdct

SMALLEST = 1e-3
"""The magnitude below which the encoder sees no difference; a full-scale sine has about 15."""
LARGEST_LOG = 5.0
"""The decoder's largest magnitude: ten times that of a full-scale sine."""
COMPRESSION = 0.3
"""The exponent that compresses magnitudes when the encoder reads real and imaginary parts."""
DIRECT_COMPRESSION = 0.5
"""The exponent that compresses direct coefficients, so that an error in a quiet sound counts about as in a loud one."""


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
    direct_coefficients: int = Field(default=0, ge=0)
    """How many of the lowest MDCT coefficients of a frame pass beside the blocks; 48 of 320 at 24 kHz reach 1.8 kHz."""

    @model_validator(mode="after")
    def _check(self) -> "SpectralConfig":
        if self.window <= self.hop_length or (self.window - self.hop_length) % 2:
            raise ValueError(
                f"expected a window that exceeds hop_length {self.hop_length} by an even number, found {self.window}"
            )
        if self.kernel_size % 2 == 0:
            raise ValueError(f"expected an odd kernel_size, found {self.kernel_size}")
        if self.direct_coefficients > min(self.hop_length, self.dim):
            raise ValueError(
                f"expected at most {min(self.hop_length, self.dim)} direct_coefficients, as many as hop_length "
                f"{self.hop_length} and dim {self.dim} have room for, found {self.direct_coefficients}"
            )
        if self.direct_coefficients and self.hop_length % 2:
            raise ValueError(f"expected an even hop_length for direct_coefficients, found {self.hop_length}")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, dump: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Leave out `direct_coefficients` if there are none: codecs from before they existed keep their fingerprint."""
        values = dump(self)
        return values if self.direct_coefficients else {k: v for k, v in values.items() if k != "direct_coefficients"}

    @property
    def num_bins(self) -> int:
        """The number of frequencies in a spectrum."""
        return self.window // 2 + 1

    def build_encoder(self, num_channels: int) -> "SpectralEncoder":
        return SpectralEncoder(self, num_channels)

    def build_decoder(self, num_channels: int) -> "SpectralDecoder":
        return SpectralDecoder(self, num_channels)


class SpectralEncoder(nn.Module):
    """Audio to T = ceil(N / hop_length) latents.

    >>> import torch
    >>> from solfa.nn import SpectralConfig, SpectralEncoder
    >>> config = SpectralConfig(hop_length=32, window=64, dim=8, encoder_width=8, encoder_blocks=1)
    >>> SpectralEncoder(config, num_channels=1)(torch.zeros(1, 1, 330)).shape
    torch.Size([1, 8, 11])
    """

    def __init__(self, config: SpectralConfig, num_channels: int) -> None:
        super().__init__()
        self.config = config
        width = config.encoder_width
        self.embed = nn.Linear(3 * num_channels * config.num_bins, width)
        self.stack = ConvNextStack(width, config.expansion * width, config.encoder_blocks, config.kernel_size)
        self.last = nn.Linear(width, config.dim)
        self.direct = _identity(num_channels * config.direct_coefficients, config.dim)

    def forward(self, audio: Float[Tensor, "B C N"]) -> Float[Tensor, "B D T"]:
        spectra = to_spectra(audio, self.config.window, self.config.hop_length)
        x = self.stack(self.embed(features_of(spectra).to(self.embed.weight.dtype)))
        latents: Tensor = self.last(x)
        if self.direct is not None:
            coefficients = to_mdct(audio, self.config.hop_length, self.config.direct_coefficients)
            rows = compressed(coefficients).transpose(1, 2).flatten(2)
            latents = latents + self.direct(rows.to(latents.dtype))
        return latents.mT


class SpectralDecoder(nn.Module):
    """T latents to T * hop_length samples.

    >>> import torch
    >>> from solfa.nn import SpectralConfig, SpectralDecoder
    >>> config = SpectralConfig(hop_length=32, window=64, dim=8, decoder_width=8, decoder_blocks=1)
    >>> SpectralDecoder(config, num_channels=1)(torch.zeros(1, 8, 11)).shape
    torch.Size([1, 1, 352])
    """

    def __init__(self, config: SpectralConfig, num_channels: int) -> None:
        super().__init__()
        self.config, self.num_channels = config, num_channels
        width = config.decoder_width
        self.embed = nn.Linear(config.dim, width)
        self.stack = ConvNextStack(width, config.expansion * width, config.decoder_blocks, config.kernel_size)
        self.last = nn.Linear(width, num_channels * (2 * config.num_bins + config.direct_coefficients))
        self.direct = _identity(config.dim, num_channels * config.direct_coefficients)

    def forward(self, latents: Float[Tensor, "B D T"]) -> Float[Tensor, "B C N"]:
        x: Tensor = self.last(self.stack(self.embed(latents.mT)))
        num_polar = 2 * self.num_channels * self.config.num_bins
        spectra = spectra_of(self._per_channel(x[..., :num_polar]))
        audio = to_audio(spectra, self.config.window, self.config.hop_length)
        if self.direct is not None:
            coefficients = self._per_channel(self.direct(latents.mT) + x[..., num_polar:])
            audio = audio + from_mdct(expanded(coefficients), self.config.hop_length)
        return audio.view(len(x), self.num_channels, -1).to(latents.dtype)

    def _per_channel(self, x: Float[Tensor, "B T f"]) -> Float[Tensor, "b T _"]:
        return x.reshape(*x.shape[:2], self.num_channels, -1).transpose(1, 2).flatten(0, 1)


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


def compressed(coefficients: Float[Tensor, "*B T K"]) -> Float[Tensor, "*B T K"]:
    """Compress magnitudes and keep signs; what is far below `SMALLEST` vanishes, so that the slope stays finite."""
    return coefficients * (coefficients.abs() + SMALLEST).pow(DIRECT_COMPRESSION - 1)


def expanded(numbers: Float[Tensor, "B T K"]) -> Float[Tensor, "B T K"]:
    """Undo `compressed`, but for what vanishes; in at least float32, and no louder than ten full-scale sines."""
    exact = numbers.to(torch.promote_types(numbers.dtype, torch.float32))
    limit = math.exp(LARGEST_LOG * DIRECT_COMPRESSION)
    exact = exact.clamp(-limit, limit)
    return exact * exact.abs().pow(1 / DIRECT_COMPRESSION - 1)


def _identity(num_inputs: int, num_outputs: int) -> nn.Linear | None:
    """Make a linear layer that starts by passing on what it has room for; None if there is nothing to pass on."""
    if not num_inputs or not num_outputs:
        return None
    layer = nn.Linear(num_inputs, num_outputs, bias=False)
    nn.init.eye_(layer.weight)
    return layer
