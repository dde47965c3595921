"""Mimi, the 12.5 Hz speech codec of Moshi (arXiv 2410.00037), with the model of HF transformers.

The first codebooks are semantic and the others acoustic, so `num_codebooks` cannot be less than the semantic ones.
T = ceil(N / hop_length); decoding is trimmed to the clip's length.
"""

from collections.abc import Mapping
from math import prod
from typing import Any, Literal, final

from jaxtyping import Float, Int64
from pydantic import Field
from torch import Tensor

from solfa.codecs.checkpoint import Checkpoint, load_pretrained
from solfa.codecs.cpu.mimi_encoder import fast_mimi_encoder
from solfa.codecs.inference import clip_by_clip, dtype_of, exact_inference, set_for_inference
from solfa.codecs.protocol import Encoded, StoredClip, as_batch
from solfa.codecs.waveform import check_audio, fit_length
from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.pretrained.tensors import weights_sha256

ARCHITECTURE = (
    "sampling_rate",
    "audio_channels",
    "upsampling_ratios",
    "frame_rate",
    "use_causal_conv",
    "pad_mode",
    "trim_right_ratio",
    "dilation_growth_rate",
    "num_residual_layers",
    "codebook_size",
    "num_semantic_quantizers",
    "upsample_groups",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "norm_eps",
    "rope_parameters",
    "sliding_window",
)
"""Config values that change the numbers but do not show in the weights."""


class MimiOptions(Config):
    """The options of Mimi."""

    num_codebooks: int | None = Field(default=None, ge=1)
    """Keep the first K codebooks; None keeps all."""


@final
class MimiCodec:
    """Mimi behind the codec protocol; `model` is a `transformers.MimiModel`."""

    kind: Literal["codes"] = "codes"
    latent_channels = None

    def __init__(self, model: Any, checkpoint: Checkpoint, options: MimiOptions) -> None:
        config = model.config
        self.num_codebooks = options.num_codebooks or config.num_quantizers
        if not config.num_semantic_quantizers <= self.num_codebooks <= config.num_quantizers:
            raise ConfigError(
                f"codec {checkpoint.name}: num_codebooks: expected {config.num_semantic_quantizers} to "
                f"{config.num_quantizers}, found {self.num_codebooks}"
            )
        self.name = checkpoint.name
        self.spec = checkpoint.spec({"num_codebooks": self.num_codebooks})
        self.sample_rate, self.num_channels = config.sampling_rate, config.audio_channels
        self.hop_length = prod(config.upsampling_ratios) * config.latent_stride
        self.frame_rate = self.sample_rate / self.hop_length
        self.codebook_size = config.codebook_size
        self.description: Mapping[str, Any] = {
            "family": "mimi",
            "architecture": {name: getattr(config, name) for name in ARCHITECTURE},
            "weights_sha256": weights_sha256(model.state_dict()),
            "options": {"num_codebooks": self.num_codebooks},
            "precision": checkpoint.precision,
        }
        self.fingerprint = value_sha256(self.description)
        set_for_inference(model, checkpoint.precision, checkpoint.device)
        self.model, self._device = model, checkpoint.device
        self._encoder = fast_mimi_encoder(model.encoder)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, options: Mapping[str, object]) -> "MimiCodec":
        """Load a transformers checkpoint."""
        from transformers import MimiModel

        parsed = parse_config(MimiOptions, options, f"codec {checkpoint.name}")

        def build(model: Any, config: Any) -> None:
            MimiModel.__init__(model, config)
            model._keys_to_ignore_on_load_unexpected = set()

        # The library ignores unknown tensors of the encoder and the decoder, for the sake of checkpoints of one
        # half; here they are refused like any others. It looks up the renaming of old layouts by the class's name.
        changes = {"__init__": build, "__module__": MimiModel.__module__}
        strict = type(MimiModel.__name__, (MimiModel,), changes)
        return cls(load_pretrained(checkpoint, strict), checkpoint, parsed)

    def encode(self, audio: Float[Tensor, "B C N"]) -> Encoded:
        """Encode clips of equal length to codes `[B, T, K]`."""
        check_audio(audio, self.num_channels, self.name)
        with exact_inference():
            latents = self._encoder(audio.to(self._device, dtype_of(self.model)))
            codes = clip_by_clip(self._quantize)(latents)
        return Encoded(codes, audio.shape[-1])

    def _quantize(self, latents: Float[Tensor, "B Z T"]) -> Int64[Tensor, "B T K"]:
        # A clip at a time on CPUs: the matrix product behind its distances rounds differently with more rows, and one
        # code of some thousands was another one than that of the clip alone.
        codes: Tensor = self.model.quantizer.encode(latents, self.num_codebooks)  # [K, B, T]
        return codes.permute(1, 2, 0).contiguous()

    def decode(self, encoded: Encoded | StoredClip) -> Float[Tensor, "*B C N"]:
        """Decode and trim."""
        batch, single = as_batch(encoded, self._device)
        with exact_inference():
            decoded = self.model.decode(batch.array.long().transpose(1, 2)).audio_values
            audio = fit_length(decoded.float(), batch.num_samples)
        return audio[0] if single else audio
