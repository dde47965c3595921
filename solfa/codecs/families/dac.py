"""DAC, the Descript audio codec (arXiv 2306.06546), with the layers of HF transformers.

One frame per `hop_length` samples: a clip is zero-padded on the right to a multiple of it, as DAC's own feature
extractor does, so T = ceil(N / hop_length) and no sample is dropped.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Literal, final

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from solfa.codecs.checkpoint import Checkpoint, load_pretrained
from solfa.codecs.cpu.dac_encoder import fast_dac_encoder
from solfa.codecs.inference import clip_by_clip, dtype_of, exact_inference, set_for_inference
from solfa.codecs.protocol import Encoded, StoredClip, as_batch
from solfa.codecs.waveform import check_audio, fit_length, pad_to_multiple
from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.pretrained.tensors import weights_sha256


class DacOptions(Config):
    """The options of DAC."""

    num_codebooks: int | None = Field(default=None, ge=1)
    """Keep the first K codebooks; None keeps all."""


class DacArchitecture(Config):
    """Settings that change the numbers but do not show in the weights."""

    sample_rate: int
    num_channels: int
    codebook_size: int
    encoder_strides: tuple[int, ...]
    decoder_strides: tuple[int, ...]

    @property
    def hop_length(self) -> int:
        return prod(self.encoder_strides)


@final
class DacNetwork(nn.Module):
    """The parts of a DAC: encoder, projection (identity in Descript's own models), quantizer, decoder."""

    def __init__(self, encoder: nn.Module, projection: nn.Module, quantizer: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.projection, self.quantizer, self.decoder = encoder, projection, quantizer, decoder

    @staticmethod
    def from_model(model: Any) -> "DacNetwork":
        """Take the parts of a `transformers.DacModel`."""
        return DacNetwork(model.encoder, nn.Identity(), model.quantizer, model.decoder)


@final
class DacCodec:
    """DAC behind the codec protocol."""

    kind: Literal["codes"] = "codes"
    latent_channels = None

    def __init__(
        self,
        model: DacNetwork,
        architecture: DacArchitecture,
        checkpoint: Checkpoint,
        options: DacOptions,
        encoder: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        available = len(model.quantizer.quantizers)  # type: ignore[arg-type]
        self.num_codebooks = options.num_codebooks or available
        if self.num_codebooks > available:
            raise ConfigError(
                f"codec {checkpoint.name}: num_codebooks: expected at most {available}, found {self.num_codebooks}"
            )
        self.name = checkpoint.name
        self.spec = checkpoint.spec({"num_codebooks": self.num_codebooks})
        self.sample_rate, self.num_channels = architecture.sample_rate, architecture.num_channels
        self.hop_length, self.codebook_size = architecture.hop_length, architecture.codebook_size
        self.frame_rate = self.sample_rate / self.hop_length
        self.description: Mapping[str, Any] = {
            "family": "dac",
            "architecture": architecture.model_dump(mode="json"),
            "weights_sha256": weights_sha256(model.state_dict()),
            "options": {"num_codebooks": self.num_codebooks},
            "precision": checkpoint.precision,
        }
        self.fingerprint = value_sha256(self.description)
        set_for_inference(model, checkpoint.precision, checkpoint.device)
        self.model, self._device = model, checkpoint.device
        self._encoder: Callable[[Tensor], Tensor] = encoder or fast_dac_encoder(model.encoder)
        self._quantize = clip_by_clip(lambda hidden: model.quantizer(hidden, self.num_codebooks)[1])

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, options: Mapping[str, object]) -> "DacCodec":
        """Load a transformers checkpoint."""
        from transformers import DacModel

        parsed = parse_config(DacOptions, options, f"codec {checkpoint.name}")
        model = load_pretrained(checkpoint, DacModel)
        config = model.config
        architecture = DacArchitecture(
            sample_rate=config.sampling_rate,
            num_channels=1,
            codebook_size=config.codebook_size,
            encoder_strides=tuple(config.downsampling_ratios),
            decoder_strides=tuple(config.upsampling_ratios),
        )
        return cls(DacNetwork.from_model(model), architecture, checkpoint, parsed)

    def encode(self, audio: Float[Tensor, "B C N"]) -> Encoded:
        """Encode clips of equal length to codes `[B, T, K]`."""
        check_audio(audio, self.num_channels, self.name)
        with exact_inference():
            padded = pad_to_multiple(audio.to(self._device, dtype_of(self.model)), self.hop_length)
            hidden = self.model.projection(self._encoder(padded))
            codes = self._quantize(hidden)
        return Encoded(codes.transpose(1, 2).contiguous(), audio.shape[-1])

    def decode(self, encoded: Encoded | StoredClip) -> Float[Tensor, "*B C N"]:
        """Decode; if the decoder's odd strides leave it a few samples short, zeros are appended."""
        batch, single = as_batch(encoded, self._device)
        with exact_inference():
            hidden = self.model.quantizer.from_codes(batch.array.long().transpose(1, 2))[0]  # type: ignore[operator]
            audio = fit_length(self.model.decoder(hidden).float(), batch.num_samples)
        return audio[0] if single else audio
