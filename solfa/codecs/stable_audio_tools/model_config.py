"""The `model_config.json` of stable-audio-tools, as far as Solfa runs it: oobleck + vae, and dac + dac_rvq.

Defaults are those of stable-audio-tools. A field that would change the numbers in an unsupported way is refused.
"""

from math import prod
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from solfa.config import Config


class _Part(Config):
    """Fields every part may have; `requires_grad` only matters for training."""

    requires_grad: bool = True


class OobleckEncoder(Config):
    """Waveform to mean and scale; `latent_dim` counts both."""

    in_channels: int = 2
    channels: int = 128
    latent_dim: int = 32
    c_mults: tuple[int, ...] = (1, 2, 4, 8)
    strides: tuple[int, ...] = (2, 4, 8, 8)
    use_snake: bool = False
    antialias_activation: Literal[False] = False

    @model_validator(mode="after")
    def _check(self) -> "OobleckEncoder":
        _check_oobleck(self.use_snake, self.c_mults, self.strides)
        return self


class OobleckDecoder(Config):
    """Mean to waveform."""

    out_channels: int = 2
    channels: int = 128
    latent_dim: int = 32
    c_mults: tuple[int, ...] = (1, 2, 4, 8)
    strides: tuple[int, ...] = (2, 4, 8, 8)
    use_snake: bool = False
    antialias_activation: Literal[False] = False
    use_nearest_upsample: Literal[False] = False
    final_tanh: bool = True

    @model_validator(mode="after")
    def _check(self) -> "OobleckDecoder":
        _check_oobleck(self.use_snake, self.c_mults, self.strides)
        return self


def _check_oobleck(use_snake: bool, c_mults: tuple[int, ...], strides: tuple[int, ...]) -> None:
    if not use_snake:
        raise ValueError("use_snake: only true is supported (the default is false, which means ELU)")
    if len(c_mults) != len(strides) or not strides:
        raise ValueError(f"expected as many c_mults as strides, found {len(c_mults)} and {len(strides)}")


class DacEncoder(Config):
    """Waveform to the quantizer's input."""

    in_channels: int = 1
    d_model: int
    strides: tuple[int, ...] = Field(min_length=1)
    latent_dim: int | None = None
    """Adds a projection after the encoder; None keeps the encoder's width."""

    @property
    def width(self) -> int:
        return self.d_model << len(self.strides)


class DacDecoder(Config):
    """The quantizer's output to waveform."""

    latent_dim: int
    channels: int
    rates: tuple[int, ...] = Field(min_length=1)
    out_channels: int = 1


class DacQuantizer(Config):
    """Residual vector quantization; dropout only matters for training."""

    input_dim: int = 512
    n_codebooks: int
    codebook_size: int
    codebook_dim: int = 8
    quantizer_dropout: float = 0.0
    quantize_on_decode: Literal[False] = False
    noise_augment_dim: Literal[0] = 0


class OobleckEncoderPart(_Part):
    """The encoder and its type."""

    type: Literal["oobleck"]
    config: OobleckEncoder


class OobleckDecoderPart(_Part):
    """The decoder and its type."""

    type: Literal["oobleck"]
    config: OobleckDecoder
    soft_clip: Literal[False] = False


class VaePart(_Part):
    """A bottleneck without weights."""

    type: Literal["vae"]


class DacEncoderPart(_Part):
    """The encoder and its type."""

    type: Literal["dac"]
    config: DacEncoder


class DacDecoderPart(_Part):
    """The decoder and its type."""

    type: Literal["dac"]
    config: DacDecoder
    soft_clip: Literal[False] = False


class DacRvqPart(_Part):
    """The quantizer and its type."""

    type: Literal["dac_rvq"]
    config: DacQuantizer


class _Autoencoder(Config):
    latent_dim: int
    downsampling_ratio: int
    io_channels: int
    in_channels: int | None = None
    out_channels: int | None = None
    pretransform: None = None

    def _check_sums(self, latent_dim: int, strides: tuple[int, ...], upsampling: tuple[int, ...]) -> None:
        _check_equal("latent_dim", self.latent_dim, "the decoder's latent_dim", latent_dim)
        _check_equal(
            "downsampling_ratio", self.downsampling_ratio, "the product of the encoder's strides", prod(strides)
        )
        _check_equal("downsampling_ratio", self.downsampling_ratio, "the decoder's upsampling", prod(upsampling))

    def _check_channels(self, encoder: int, decoder: int) -> None:
        _check_equal("in_channels", self.in_channels or self.io_channels, "the encoder's in_channels", encoder)
        _check_equal("out_channels", self.out_channels or self.io_channels, "the decoder's out_channels", decoder)
        _check_equal("in_channels", encoder, "out_channels", decoder)


def _check_equal(name: str, value: int, other: str, expected: int) -> None:
    if value != expected:
        raise ValueError(f"{name}: expected {expected} ({other}), found {value}")


class OobleckVae(_Autoencoder):
    """The autoencoder of Stable Audio 2 and Stable Audio Open."""

    encoder: OobleckEncoderPart
    decoder: OobleckDecoderPart
    bottleneck: VaePart

    @model_validator(mode="after")
    def _check(self) -> "OobleckVae":
        encoder, decoder = self.encoder.config, self.decoder.config
        self._check_sums(decoder.latent_dim, encoder.strides, decoder.strides)
        self._check_channels(encoder.in_channels, decoder.out_channels)
        _check_equal("the encoder's latent_dim", encoder.latent_dim, "mean and scale", 2 * decoder.latent_dim)
        return self


class DacRvq(_Autoencoder):
    """A DAC inside stable-audio-tools."""

    encoder: DacEncoderPart
    decoder: DacDecoderPart
    bottleneck: DacRvqPart

    @model_validator(mode="after")
    def _check(self) -> "DacRvq":
        encoder, decoder, quantizer = self.encoder.config, self.decoder.config, self.bottleneck.config
        self._check_sums(decoder.latent_dim, encoder.strides, decoder.rates)
        self._check_channels(encoder.in_channels, decoder.out_channels)
        _check_equal("input_dim", quantizer.input_dim, "the encoder's output", encoder.latent_dim or encoder.width)
        _check_equal("input_dim", quantizer.input_dim, "the decoder's latent_dim", decoder.latent_dim)
        return self


class StableAudioHeader(Config):
    """What every model config says, whatever its architecture; training and demo settings are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    model_type: Literal["autoencoder"]
    sample_rate: int = Field(ge=1)
    model: dict[str, Any]


SUPPORTED: dict[tuple[str, str, str], type[OobleckVae] | type[DacRvq]] = {
    ("oobleck", "oobleck", "vae"): OobleckVae,
    ("dac", "dac", "dac_rvq"): DacRvq,
}
"""Types of encoder, decoder and bottleneck that run here."""
