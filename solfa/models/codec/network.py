"""The codec network: audio [B, C, N] to T = ceil(N / hop_length) frames and back to exactly N samples."""

from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from solfa.errors import ConfigError
from solfa.models.codec.bottlenecks import Bottleneck, Bottlenecked, RvqBottleneck
from solfa.models.codec.config import CodecModelConfig


class Reconstruction(NamedTuple):
    """Audio that went through the codec, and the result of its bottleneck."""

    audio: Float[Tensor, "B C N"]
    bottleneck: Bottlenecked


@final
class CodecModel(nn.Module):
    """An encoder and a decoder around a bottleneck.

    >>> import torch
    >>> from solfa.models import CodecModel, CodecModelConfig, Rvq
    >>> from solfa.nn import SeanetConfig
    >>> network = SeanetConfig(num_filters=4, dim=8, strides=(4, 2), lstm_layers=0)
    >>> config = CodecModelConfig(sample_rate=8_000, network=network, bottleneck=Rvq(num_codebooks=2, codebook_size=16))
    >>> model, audio = CodecModel(config).eval(), torch.zeros(1, 1, 800)
    >>> codes = model.encode(audio)
    >>> codes.shape, model.decode(codes).shape
    (torch.Size([1, 100, 2]), torch.Size([1, 1, 800]))
    """

    def __init__(self, config: CodecModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = config.network.build_encoder(config.num_channels)
        self.bottleneck: Bottleneck = config.bottleneck.build(config.network.dim)
        self.decoder = config.network.build_decoder(config.num_channels)

    def forward(self, audio: Float[Tensor, "B C N"], given: Int[Tensor, "b T K"] | None = None) -> Reconstruction:
        """Reconstruct, for training: gradients pass through the bottleneck, whose codebooks learn in training mode.

        The last clips are only decoded, from `given` codes, if there are any.
        """
        self._check(audio)
        own = audio if given is None else audio[: len(audio) - len(given)]
        passed: Bottlenecked = self.bottleneck(self.encoder(own))
        latents = passed.latents
        if given is not None:
            latents = torch.cat([latents, self.bottleneck.decode(given).to(latents.dtype)])
        return Reconstruction(self.decoder(latents)[..., : audio.shape[-1]], passed)

    def encode(self, audio: Float[Tensor, "B C N"], num_codebooks: int | None = None) -> Shaped[Tensor, "B T Z"]:
        """Return codes `[B, T, K]` (int64) of the first codebooks, or means of continuous latents `[B, T, Z]`."""
        self._check(audio)
        return self.bottleneck.encode(self.encoder(audio), num_codebooks)

    def decode(self, array: Shaped[Tensor, "B T Z"], num_samples: int | None = None) -> Float[Tensor, "B C N"]:
        """Decode codes (of all codebooks or the first few) or latents to audio, cut to `num_samples`."""
        longest = array.shape[1] * self.config.hop_length
        if num_samples is not None and not longest - self.config.hop_length < num_samples <= longest:
            raise ConfigError(
                f"codec: expected {longest - self.config.hop_length + 1} to {longest} samples for {array.shape[1]} "
                f"frames, found num_samples {num_samples}"
            )
        audio: Tensor = self.decoder(self.bottleneck.decode(array))
        return audio[..., :num_samples]

    def keep_codes(self) -> None:
        """Let only the decoder learn from now on: what `encode` gives stays the same."""
        self.encoder.requires_grad_(False)
        self.bottleneck.requires_grad_(False)
        if isinstance(self.bottleneck, RvqBottleneck):
            self.keep_codebooks()

    def keep_codebooks(self) -> None:
        """Let encoder and decoder learn, but not the entries that codes stand for."""
        if not isinstance(self.bottleneck, RvqBottleneck):
            kind = self.config.bottleneck.kind
            raise ConfigError(f"keep_codebooks: expected a bottleneck rvq, which has codebooks to keep, found {kind}")
        self.bottleneck.quantizer.learns = False

    def _check(self, audio: Tensor) -> None:
        channels, num_samples = audio.shape[1:]
        if channels != self.config.num_channels or num_samples < 1:
            raise ConfigError(
                f"codec: expected audio [B, {self.config.num_channels}, N] with at least one sample, "
                f"found {list(audio.shape)}"
            )
