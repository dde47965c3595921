"""Codes of the codec that a training started from: a decoder that moves on with its encoder still learns to read them.

    clips of a batch ──► encoder in training ──► codebooks ┐
    the last of them ──► encoder before, as it was ────────┴──► decoder in training

Codebooks stay as they are meanwhile (`keep_codebooks`), so both write the same kind of codes.
"""

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from solfa.codecs.catalogue import load_own
from solfa.config import Config
from solfa.errors import ConfigError
from solfa.models.codec.bottlenecks import RvqBottleneck
from solfa.models.codec.config import CodecModelConfig
from solfa.models.codec.network import CodecModel


class OlderCodesConfig(Config):
    """Which codec's codes to read, too, and how much to train on them."""

    codec: str
    """A codec with the same codebooks, built in or exported: the one that models and datasets have codes of."""
    share: float = Field(default=0.25, gt=0, lt=1)
    """The share of the clips of a batch that are decoded from its codes."""

    def build(self, model: CodecModelConfig) -> "OlderCodes":
        return OlderCodes(self, model)


class OlderCodes:
    """Latents of clips as the codec before would write them."""

    def __init__(self, config: OlderCodesConfig, model: CodecModelConfig) -> None:
        codec = load_own(config.codec)
        if codec is None or _frames(codec.config) != _frames(model):
            raise ConfigError(
                "older_codes.codec: expected a codec that Solfa trained, with the codebooks and frames of this one, "
                f"found {config.codec}"
            )
        self._config = config
        self._codec = codec.eval().requires_grad_(False)

    def expect_same_codebooks(self, codec: CodecModel) -> None:
        """Refuse a codec to which the same codes mean something else."""
        ours, theirs = self._codec.bottleneck, codec.bottleneck
        if isinstance(ours, RvqBottleneck) and isinstance(theirs, RvqBottleneck):
            found = theirs.quantizer.codebooks
            if torch.equal(ours.quantizer.codebooks.to(found), found):
                return
        raise ConfigError(
            f"older_codes.codec: expected the codebooks that the training starts with, found others in "
            f"{self._config.codec}; name the codec of continue_from"
        )

    @torch.no_grad()
    def latents(self, audio: Float[Tensor, "B C N"]) -> Float[Tensor, "b D T"]:
        """Return the last clips of a batch, at least one, from codes of a random number of codebooks."""
        last = audio[len(audio) - max(1, round(self._config.share * len(audio))) :]
        codec = self._codec.to(audio.device)
        number = int(torch.randint(1, (codec.config.num_codebooks or 1) + 1, ()))
        with torch.autocast(audio.device.type, enabled=False):
            return codec.bottleneck.decode(codec.encode(last, number))


def _frames(config: CodecModelConfig) -> tuple[int | None, ...]:
    return (
        config.num_codebooks,
        config.codebook_size,
        config.network.dim,
        config.hop_length,
        config.sample_rate,
        config.num_channels,
    )
