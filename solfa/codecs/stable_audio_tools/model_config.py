"""The `model_config.json` of stable-audio-tools, as far as Solfa runs it.

That is oobleck and dac with the bottlenecks vae, tanh, l2_norm, wasserstein or none, dac + dac_rvq, and seanet + rvq.

Defaults are those of stable-audio-tools. A field that would change the numbers in an unsupported way is refused.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from solfa.codecs.stable_audio_tools.autoencoder_config import Autoencoder, Part, check_equal
from solfa.codecs.stable_audio_tools.seanet_config import SeanetRvq
from solfa.config import Config


class OobleckEncoder(Config):
    """Waveform to latents; for a vae, `latent_dim` counts mean and scale. Without `use_snake`, it uses ELU."""

    in_channels: int = 2
    channels: int = 128
    latent_dim: int = 32
    c_mults: tuple[int, ...] = (1, 2, 4, 8)
    strides: tuple[int, ...] = (2, 4, 8, 8)
    use_snake: bool = False
    antialias_activation: Literal[False] = False

    @model_validator(mode="after")
    def _check(self) -> "OobleckEncoder":
        _check_oobleck(self.c_mults, self.strides)
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
        _check_oobleck(self.c_mults, self.strides)
        return self


def _check_oobleck(c_mults: tuple[int, ...], strides: tuple[int, ...]) -> None:
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

    @property
    def output_dim(self) -> int:
        return self.latent_dim or self.width


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


class OobleckEncoderPart(Part):
    """The encoder and its type."""

    type: Literal["oobleck"]
    config: OobleckEncoder


class OobleckDecoderPart(Part):
    """The decoder and its type."""

    type: Literal["oobleck"]
    config: OobleckDecoder
    soft_clip: bool = False
    """Another tanh, after that of the decoder if it has one."""


class VaePart(Part):
    """Mean and scale; the mean is stored."""

    type: Literal["vae"]


class TanhBottleneck(Config):
    """Squashes latents to plus and minus `scale`."""

    scale: float = Field(default=1.0, gt=0)


class TanhPart(Part):
    """A bottleneck without weights."""

    type: Literal["tanh"]
    config: TanhBottleneck = TanhBottleneck()


class L2NormPart(Part):
    """A bottleneck without weights: every frame gets length 1."""

    type: Literal["l2_norm"]


class WassersteinBottleneck(Config):
    """Keeps latents as they are, or squashes them; what it adds to the loss only matters for training."""

    noise_augment_dim: Literal[0] = 0
    bypass_mmd: bool = False
    use_tanh: bool = False
    tanh_scale: float = Field(default=5.0, gt=0)


class WassersteinPart(Part):
    """A bottleneck without weights."""

    type: Literal["wasserstein"]
    config: WassersteinBottleneck = WassersteinBottleneck()


ContinuousPart = Annotated[VaePart | TanhPart | L2NormPart | WassersteinPart, Field(discriminator="type")]
CONTINUOUS = ("vae", "tanh", "l2_norm", "wasserstein", "none")


class DacEncoderPart(Part):
    """The encoder and its type."""

    type: Literal["dac"]
    config: DacEncoder


class DacDecoderPart(Part):
    """The decoder and its type."""

    type: Literal["dac"]
    config: DacDecoder
    soft_clip: bool = False


class DacRvqPart(Part):
    """The quantizer and its type."""

    type: Literal["dac_rvq"]
    config: DacQuantizer


def _check_latents(bottleneck: ContinuousPart | None, encoder: int, decoder: int) -> None:
    """Check what the encoder gives against what the decoder takes."""
    if isinstance(bottleneck, VaePart):
        check_equal("the encoder's latent_dim", encoder, "mean and scale", 2 * decoder)
    else:
        check_equal("the encoder's latent_dim", encoder, "the decoder's", decoder)


class OobleckLatents(Autoencoder):
    """The autoencoder of Stable Audio 2 and Stable Audio Open, and its relatives."""

    encoder: OobleckEncoderPart
    decoder: OobleckDecoderPart
    bottleneck: ContinuousPart | None = None

    @model_validator(mode="after")
    def _check(self) -> "OobleckLatents":
        encoder, decoder = self.encoder.config, self.decoder.config
        self.check_sums(decoder.latent_dim, encoder.strides, decoder.strides)
        self.check_channels(encoder.in_channels, decoder.out_channels)
        _check_latents(self.bottleneck, encoder.latent_dim, decoder.latent_dim)
        return self


class DacLatents(Autoencoder):
    """The autoencoder of Stable Audio 1."""

    encoder: DacEncoderPart
    decoder: DacDecoderPart
    bottleneck: ContinuousPart | None = None

    @model_validator(mode="after")
    def _check(self) -> "DacLatents":
        encoder, decoder = self.encoder.config, self.decoder.config
        self.check_sums(decoder.latent_dim, encoder.strides, decoder.rates)
        self.check_channels(encoder.in_channels, decoder.out_channels)
        _check_latents(self.bottleneck, encoder.output_dim, decoder.latent_dim)
        return self


class DacRvq(Autoencoder):
    """A DAC inside stable-audio-tools."""

    encoder: DacEncoderPart
    decoder: DacDecoderPart
    bottleneck: DacRvqPart

    @model_validator(mode="after")
    def _check(self) -> "DacRvq":
        encoder, decoder, quantizer = self.encoder.config, self.decoder.config, self.bottleneck.config
        self.check_sums(decoder.latent_dim, encoder.strides, decoder.rates)
        self.check_channels(encoder.in_channels, decoder.out_channels)
        check_equal("input_dim", quantizer.input_dim, "the encoder's output", encoder.output_dim)
        check_equal("input_dim", quantizer.input_dim, "the decoder's latent_dim", decoder.latent_dim)
        if self.decoder.soft_clip:
            raise ValueError(
                "soft_clip: expected false for dac + dac_rvq, whose decoder ends in tanh already, found true"
            )
        return self


class StableAudioHeader(Config):
    """What every model config says, whatever its architecture; training and demo settings are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    model_type: Literal["autoencoder"]
    sample_rate: int = Field(ge=1)
    model: dict[str, Any]


AnyModel = OobleckLatents | DacLatents | DacRvq | SeanetRvq

SUPPORTED: dict[tuple[str, str, str], type[AnyModel]] = {
    **{("oobleck", "oobleck", bottleneck): OobleckLatents for bottleneck in CONTINUOUS},
    **{("dac", "dac", bottleneck): DacLatents for bottleneck in CONTINUOUS},
    ("dac", "dac", "dac_rvq"): DacRvq,
    ("seanet", "seanet", "rvq"): SeanetRvq,
}
"""Types of encoder, decoder and bottleneck that run here."""
