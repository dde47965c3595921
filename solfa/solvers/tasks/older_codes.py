"""Codes of the codec that a training started from: a decoder that moves on with its encoder still learns to read them.

    clips of a batch ──► encoder in training ──► codebooks ┐
    the last of them ──► encoder before, as it was ────────┴──► decoder in training

Codebooks stay as they are meanwhile (`keep_codebooks`), so both write the same kind of codes.
"""

import torch
from jaxtyping import Float, Int64
from pydantic import Field
from torch import Tensor

from solfa.codecs.catalogue import load_own
from solfa.config import Config
from solfa.errors import ConfigError
from solfa.models.codec.bottlenecks import RvqBottleneck
from solfa.models.codec.config import CodecModelConfig
from solfa.models.codec.network import CodecModel
from solfa.nn.residual_beam import BEAM


class OlderCodesConfig(Config):
    """Which codec's codes to read, too, and how much to train on them."""

    codec: str
    """A codec with the same codebooks, built in or exported: the one that models and datasets have codes of."""
    share: float = Field(default=0.25, gt=0, lt=1)
    """The share of the clips of a batch that are decoded from its codes."""

    def build(self, model: CodecModelConfig) -> "OlderCodes":
        return OlderCodes(self, model)


class OlderCodes:
    """Codes of clips as the codec before writes them."""

    def __init__(self, config: OlderCodesConfig, model: CodecModelConfig) -> None:
        codec = load_own(config.codec)
        if codec is None or _frames(codec.config) != _frames(model):
            raise ConfigError(
                "older_codes.codec: expected a codec that Solfa trained, with the codebooks and frames of this one, "
                f"found {config.codec}"
            )
        self._config, self._is_checked = config, False
        self._codec = codec.eval().requires_grad_(False)

    @torch.no_grad()
    def codes(self, audio: Float[Tensor, "B C N"], reader: CodecModel) -> Int64[Tensor, "b T K"]:
        """Return the last clips of a batch in codes of a random number of codebooks, for `reader` to decode.

        They are chosen with a beam, as they are stored, or as nearest entries.
        """
        if len(audio) < 2:
            raise ConfigError(
                "older_codes: expected batches of at least 2 clips in each process, of which one is the codec's own, "
                f"found {len(audio)}; set dataset.batch_size higher"
            )
        if not self._is_checked:
            self._expect_same_codebooks(reader)
            self._is_checked = True
        count = min(max(1, round(self._config.share * len(audio))), len(audio) - 1)
        codec = self._codec.to(audio.device)
        bottleneck = codec.bottleneck
        assert isinstance(bottleneck, RvqBottleneck)
        number = int(torch.randint(1, bottleneck.config.num_codebooks + 1, ()))
        beam = (1, BEAM)[int(torch.randint(2, ()))]
        with torch.autocast(audio.device.type, enabled=False):
            return bottleneck.encode(codec.encoder(audio[len(audio) - count :]), number, beam=beam)

    def _expect_same_codebooks(self, reader: CodecModel) -> None:
        """Refuse a codec to which the same codes mean something else."""
        ours, theirs = self._codec.bottleneck, reader.bottleneck
        if isinstance(ours, RvqBottleneck) and isinstance(theirs, RvqBottleneck):
            found = theirs.quantizer.codebooks
            if torch.equal(ours.quantizer.codebooks.to(found), found):
                return
        raise ConfigError(
            "older_codes.codec: expected the codebooks that the training started with, found others in "
            f"{self._config.codec}; name the codec of continue_from"
        )


def _frames(config: CodecModelConfig) -> tuple[int | None, ...]:
    return (
        config.num_codebooks,
        config.codebook_size,
        config.network.dim,
        config.hop_length,
        config.sample_rate,
        config.num_channels,
    )
