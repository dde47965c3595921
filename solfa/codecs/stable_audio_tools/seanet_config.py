"""The model config of an EnCodec inside stable-audio-tools: seanet + rvq. Defaults are those of the encodec package."""

from typing import Literal

from pydantic import Field, model_validator

from solfa.codecs.stable_audio_tools.autoencoder_config import Autoencoder, Part, check_equal
from solfa.config import Config


class EluParameters(Config):
    """The only parameter of the activation."""

    alpha: float = Field(default=1.0, ge=1.0, le=1.0)


class Seanet(Config):
    """One of the two networks; fields that the encodec package knows and that would change the numbers are refused."""

    channels: int = 1
    dimension: int = 128
    n_filters: int = 32
    n_residual_layers: int = Field(default=1, ge=1)
    ratios: tuple[int, ...] = Field(min_length=1)
    """Strides from the first layer on, in the encoder and in the decoder."""
    activation: Literal["ELU"] = "ELU"
    activation_params: EluParameters = EluParameters()
    norm: Literal["weight_norm"] = "weight_norm"
    kernel_size: int = 7
    last_kernel_size: int = 7
    residual_kernel_size: int = 3
    dilation_base: int = 2
    causal: bool = False
    pad_mode: Literal["reflect"] = "reflect"
    true_skip: bool = False
    compress: int = 2
    lstm: int = Field(default=2, ge=1)


class SeanetEncoderPart(Part):
    """The encoder and its type."""

    type: Literal["seanet"]
    config: Seanet


class SeanetDecoderConfig(Seanet):
    """The decoder, which trims what it adds."""

    trim_right_ratio: float = 1.0
    final_activation: None = None


class SeanetDecoderPart(Part):
    """The decoder and its type."""

    type: Literal["seanet"]
    config: SeanetDecoderConfig
    soft_clip: Literal[False] = False


class ResidualQuantizer(Config):
    """Residual vector quantization by the nearest codeword; most settings only matter for training."""

    dim: int
    num_quantizers: int = Field(ge=1)
    codebook_size: int = Field(ge=2)
    codebook_dim: int | None = None
    decay: float = 0.8
    eps: float = 1e-5
    commitment_weight: float = 1.0
    threshold_ema_dead_code: float = 0
    kmeans_init: bool = False
    kmeans_iters: int = 10
    quantize_dropout: bool = False
    quantize_dropout_cutoff_index: int = 0
    shared_codebook: Literal[False] = False
    use_cosine_sim: Literal[False] = False


class RvqPart(Part):
    """The quantizer and its type."""

    type: Literal["rvq"]
    config: ResidualQuantizer


class SeanetRvq(Autoencoder):
    """An EnCodec inside stable-audio-tools."""

    encoder: SeanetEncoderPart
    decoder: SeanetDecoderPart
    bottleneck: RvqPart

    @model_validator(mode="after")
    def _check(self) -> "SeanetRvq":
        encoder, decoder, quantizer = self.encoder.config, self.decoder.config, self.bottleneck.config
        self.check_sums(decoder.dimension, encoder.ratios, decoder.ratios)
        self.check_channels(encoder.channels, decoder.channels)
        check_equal("dim", quantizer.dim, "the encoder's dimension", encoder.dimension)
        check_equal("dim", quantizer.dim, "the decoder's dimension", decoder.dimension)
        check_equal("codebook_dim", quantizer.codebook_dim or quantizer.dim, "dim", quantizer.dim)
        # A codec is described by one of each.
        for name in ("n_residual_layers", "dilation_base", "causal"):
            check_equal(f"the decoder's {name}", getattr(decoder, name), "the encoder's", getattr(encoder, name))
        return self
