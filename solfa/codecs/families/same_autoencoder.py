"""SAME, the autoencoder of Stable Audio 3 (arXiv 2605.17991), with the model of diffusers.

Its latents are what the network gives, without a distribution around them. T = ceil(N / hop_length), with zeros on the
right. Attention looks at a band around each frame, but its mask has the size of the whole clip squared: encode long
recordings in segments.
"""

from collections.abc import Mapping
from typing import Any, Literal, final

from jaxtyping import Float
from torch import Tensor

from solfa.codecs.checkpoint import Checkpoint, load_pretrained
from solfa.codecs.inference import clip_by_clip, dtype_of, exact_inference, set_for_inference
from solfa.codecs.protocol import Encoded, StoredClip, as_batch
from solfa.codecs.waveform import check_audio, fit_length, pad_to_multiple
from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.pretrained.tensors import weights_sha256

ARCHITECTURE = (
    "sampling_rate",
    "audio_channels",
    "patch_size",
    "encoder_strides",
    "dim_heads",
    "sliding_window",
    "use_differential_attention",
    "encoder_sinusoidal_blocks",
    "decoder_sinusoidal_blocks",
)
"""Config values that change the numbers but do not show in the weights."""


class SameOptions(Config):
    """SAME has no options."""


@final
class SameCodec:
    """SAME behind the codec protocol; `autoencoder` is a `diffusers.AutoencoderSAME`."""

    kind: Literal["latents"] = "latents"
    num_codebooks = None
    codebook_size = None

    def __init__(self, autoencoder: Any, checkpoint: Checkpoint) -> None:
        if checkpoint.precision == "bf16" and not str(checkpoint.device).startswith("cuda"):
            raise ConfigError(
                f"codec {checkpoint.name}: precision: in bf16 it decodes to noise on {checkpoint.device}; use fp32"
            )
        config = autoencoder.config
        self.name, self.spec = checkpoint.name, checkpoint.spec({})
        self.sample_rate, self.num_channels = config.sampling_rate, config.audio_channels
        self.hop_length, self.latent_channels = autoencoder.downsampling_ratio, config.latent_dim
        self.frame_rate = self.sample_rate / self.hop_length
        self.description: Mapping[str, Any] = {
            "family": "same",
            "architecture": {name: _plain(config[name]) for name in ARCHITECTURE},
            "weights_sha256": weights_sha256(autoencoder.state_dict()),
            "options": {},
            "precision": checkpoint.precision,
        }
        self.fingerprint = value_sha256(self.description)
        set_for_inference(autoencoder, checkpoint.precision, checkpoint.device)
        self.model = self.autoencoder = autoencoder
        self._device = checkpoint.device
        self._encoder = clip_by_clip(lambda audio: autoencoder.encode(audio, return_dict=False)[0])

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, options: Mapping[str, object]) -> "SameCodec":
        """Load a diffusers checkpoint."""
        from diffusers import AutoencoderSAME

        parse_config(SameOptions, options, f"codec {checkpoint.name}")
        return cls(load_pretrained(checkpoint, AutoencoderSAME), checkpoint)

    def encode(self, audio: Float[Tensor, "B C N"]) -> Encoded:
        """Encode clips of equal length to latents `[B, T, Z]` in float32."""
        check_audio(audio, self.num_channels, self.name)
        with exact_inference():
            padded = pad_to_multiple(audio.to(self._device, dtype_of(self.model)), self.hop_length)
            latents = self._encoder(padded)
        return Encoded(latents.transpose(1, 2).float().contiguous(), audio.shape[-1])

    def decode(self, encoded: Encoded | StoredClip) -> Float[Tensor, "*B C N"]:
        """Decode latents."""
        batch, single = as_batch(encoded, self._device)
        with exact_inference():
            latents = batch.array.to(dtype_of(self.model)).transpose(1, 2)
            audio = fit_length(self.model.decode(latents, return_dict=False)[0].float(), batch.num_samples)
        return audio[0] if single else audio


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
