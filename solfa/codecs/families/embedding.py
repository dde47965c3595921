"""`embedder`: an embedder as a codec that only encodes, so that embeddings are encoded, resumed and checked like all.

A frame is a window of the embedder. What is left of a clip after its last whole window is not heard.
"""

from collections.abc import Mapping
from typing import Any, Literal, final

from jaxtyping import Float
from torch import Tensor

from solfa.codecs.embedders.catalogue import DEFAULT_EMBEDDER, load_embedder
from solfa.codecs.embedders.protocol import Embedder
from solfa.codecs.protocol import Encoded, StoredClip
from solfa.codecs.spec import CodecSpec
from solfa.codecs.waveform import check_audio
from solfa.config import Config
from solfa.errors import ConfigError


class EmbeddingOptions(Config):
    """The options of `embedder`."""

    model: str = DEFAULT_EMBEDDER
    """What `load_embedder` takes."""


@final
class EmbeddingCodec:
    """An embedder behind the codec protocol."""

    kind: Literal["latents"] = "latents"
    num_codebooks = codebook_size = None
    num_channels = 1

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.name = f"embedder {embedder.name}"
        self.spec = str(CodecSpec("embedder", {"model": embedder.name}))
        self.sample_rate, self.hop_length = embedder.sample_rate, embedder.hop_length
        self.frame_rate = self.sample_rate / self.hop_length
        self.latent_channels = embedder.width + len(embedder.tags)
        self.description: Mapping[str, Any] = embedder.description
        self.fingerprint = embedder.fingerprint

    @classmethod
    def load(cls, options: EmbeddingOptions, device: str) -> "EmbeddingCodec":
        """Load the embedder that the options name."""
        return cls(load_embedder(options.model, device=device))

    def encode(self, audio: Float[Tensor, "B C N"]) -> Encoded:
        """Embed clips of equal length, `[B, T, W]`."""
        check_audio(audio, self.num_channels, self.name)
        return Encoded(self.embedder.embed(audio[:, 0]), audio.shape[-1])

    def decode(self, encoded: Encoded | StoredClip) -> Float[Tensor, "*B C N"]:
        """Refuse: what an embedder forgets cannot be brought back."""
        raise ConfigError(f"codec {self.spec}: embeddings cannot be turned back into sound; decode another dataset")
