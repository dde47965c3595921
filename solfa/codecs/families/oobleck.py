"""Oobleck, the variational autoencoder of Stable Audio (arXiv 2407.14358), with the layers of diffusers.

Its relatives of stable-audio-tools are run by the same codec: with other activations, with the networks of DAC, and
with latents that are squashed (tanh), normalised (l2_norm) or left alone (wasserstein, none) instead of drawn.

The encoder gives a mean and a scale per latent channel. Encoding stores the mean, so it is deterministic; with
`with_scale=true` it stores mean | scale as the network gives them, and the posterior's standard deviation is
softplus(scale) + 1e-4. Decoding always uses the mean. T = ceil(N / hop_length), with zeros on the right.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Literal, final

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from solfa.codecs.checkpoint import Checkpoint, load_pretrained
from solfa.codecs.cpu.dac_encoder import fast_vae_encoder
from solfa.codecs.inference import dtype_of, exact_inference, set_for_inference
from solfa.codecs.protocol import Encoded, StoredClip, as_batch
from solfa.codecs.waveform import check_audio, fit_length, pad_to_multiple
from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.pretrained.tensors import weights_sha256


class OobleckOptions(Config):
    """The options of Oobleck."""

    with_scale: bool = False
    """Store mean | scale (twice the channels) instead of the mean."""


class OobleckArchitecture(Config):
    """Settings that change the numbers but do not show in the weights."""

    sample_rate: int
    num_channels: int
    latent_channels: int
    encoder_strides: tuple[int, ...]
    decoder_strides: tuple[int, ...]
    final_tanh: bool = False
    family: Literal["oobleck", "dac_vae"] = Field(default="oobleck", exclude=True)
    soft_clip: Literal[True] | None = None
    """Whether the waveform goes through a last tanh."""
    bottleneck: Literal["tanh", "l2_norm", "wasserstein", "none"] | None = None
    """None is variational: the network gives mean | scale. Wasserstein and none keep latents as the network gives
    them."""
    tanh_scale: float | None = None
    """Tanh squashes latents to plus and minus this."""

    @property
    def hop_length(self) -> int:
        return prod(self.encoder_strides)


@final
class OobleckNetwork(nn.Module):
    """Encoder and decoder."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder


@final
class OobleckCodec:
    """Oobleck behind the codec protocol.

    `autoencoder` is the `diffusers.AutoencoderOobleck` it is made of; if it cannot be one, that is None, and `misfits`
    names the settings that are to blame.
    """

    kind: Literal["latents"] = "latents"
    num_codebooks = None
    codebook_size = None

    def __init__(
        self,
        model: OobleckNetwork,
        architecture: OobleckArchitecture,
        checkpoint: Checkpoint,
        options: OobleckOptions,
        encoder: Callable[[Tensor], Tensor] | None = None,
        autoencoder: Any = None,
        misfits: tuple[str, ...] = (),
    ) -> None:
        self.name, self.spec = checkpoint.name, checkpoint.spec(options.model_dump())
        self.autoencoder, self.misfits = autoencoder, misfits
        self.sample_rate, self.num_channels = architecture.sample_rate, architecture.num_channels
        self.hop_length = architecture.hop_length
        self.frame_rate = self.sample_rate / self.hop_length
        self._num_means = architecture.latent_channels
        self._num_tanhs = architecture.final_tanh + bool(architecture.soft_clip)
        self._bottleneck, self._tanh_scale = architecture.bottleneck, architecture.tanh_scale or 1.0
        if options.with_scale and self._bottleneck is not None:
            raise ConfigError(
                f"codec {self.name}: with_scale: its bottleneck ({self._bottleneck}) has no scale; leave it out"
            )
        self.latent_channels = self._num_means * (2 if options.with_scale else 1)
        self.description: Mapping[str, Any] = {
            "family": architecture.family,
            "architecture": architecture.model_dump(mode="json", exclude_none=True),
            "weights_sha256": weights_sha256(model.state_dict()),
            "options": options.model_dump(mode="json"),
            "precision": checkpoint.precision,
        }
        self.fingerprint = value_sha256(self.description)
        set_for_inference(model, checkpoint.precision, checkpoint.device)
        self.model, self._device = model, checkpoint.device
        self._encoder = encoder or fast_vae_encoder(model.encoder)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, options: Mapping[str, object]) -> "OobleckCodec":
        """Load a diffusers checkpoint."""
        from diffusers import AutoencoderOobleck

        parsed = parse_config(OobleckOptions, options, f"codec {checkpoint.name}")
        model = load_pretrained(checkpoint, AutoencoderOobleck)
        config = model.config
        architecture = OobleckArchitecture(
            sample_rate=config.sampling_rate,
            num_channels=config.audio_channels,
            latent_channels=config.decoder_input_channels,
            encoder_strides=tuple(config.downsampling_ratios),
            decoder_strides=tuple(config.downsampling_ratios[::-1]),
        )
        network = OobleckNetwork(model.encoder, model.decoder)
        return cls(network, architecture, checkpoint, parsed, autoencoder=model)

    def encode(self, audio: Float[Tensor, "B C N"]) -> Encoded:
        """Encode clips of equal length to latents `[B, T, Z]` in float32."""
        check_audio(audio, self.num_channels, self.name)
        with exact_inference():
            padded = pad_to_multiple(audio.to(self._device, dtype_of(self.model)), self.hop_length)
            latents = self._bottlenecked(self._encoder(padded)[:, : self.latent_channels])
        return Encoded(latents.transpose(1, 2).float().contiguous(), audio.shape[-1])

    def _bottlenecked(self, latents: Float[Tensor, "B Z T"]) -> Float[Tensor, "B Z T"]:
        if self._bottleneck == "tanh":
            return (latents / self._tanh_scale).tanh() * self._tanh_scale
        return nn.functional.normalize(latents) if self._bottleneck == "l2_norm" else latents

    def decode(self, encoded: Encoded | StoredClip) -> Float[Tensor, "*B C N"]:
        """Decode the means; if the decoder's odd strides leave it a few samples short, zeros are appended."""
        batch, single = as_batch(encoded, self._device)
        with exact_inference():
            means = batch.array[..., : self._num_means].to(dtype_of(self.model)).transpose(1, 2)
            audio = self.model.decoder(nn.functional.normalize(means) if self._bottleneck == "l2_norm" else means)
            for _ in range(self._num_tanhs):
                audio = audio.tanh()
            audio = fit_length(audio.float(), batch.num_samples)
        return audio[0] if single else audio
