"""Which places of a sequence are text and which are audio, decided once per batch.

Text followed by audio is sliced in two, which copies nothing; anything else is gathered by index. The two parts stay
separate between layers and meet only in attention.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor


class Parts(NamedTuple):
    """The vectors of text places and of audio places, in sequence order."""

    text: Tensor
    audio: Tensor


@runtime_checkable
class Routing(Protocol):
    """Splits sequences into parts and joins them again."""

    def split(self, x: Float[Tensor, "B S W"]) -> Parts: ...
    def join(self, parts: Parts) -> Float[Tensor, "B S W"]:
        """Join the parts in the dtype of the text, whose numbers must stay the base's own."""


class SliceRouting(NamedTuple):
    """Text first, then audio: the first places are text, the others audio. The parts are [B, ., W]."""

    num_text: int

    def split(self, x: Float[Tensor, "B S W"]) -> Parts:
        return Parts(x[:, : self.num_text], x[:, self.num_text :])

    def join(self, parts: Parts) -> Float[Tensor, "B S W"]:
        return torch.cat([parts.text, parts.audio.to(parts.text.dtype)], dim=1)


class IndexRouting(NamedTuple):
    """Text and audio in any order: each place is text, audio or padding. The parts are [places, W]."""

    text: Int64[Tensor, "texts"]
    """Places in the flattened batch."""
    audio: Int64[Tensor, "audios"]
    batch_size: int
    num_steps: int

    @classmethod
    def of(cls, is_text: Bool[Tensor, "B S"], is_audio: Bool[Tensor, "B S"]) -> "IndexRouting":
        """Find the places of each kind."""
        assert not bool((is_text & is_audio).any()), "a place is text or audio"
        return cls(is_text.flatten().nonzero().flatten(), is_audio.flatten().nonzero().flatten(), *is_text.shape)

    def split(self, x: Float[Tensor, "B S W"]) -> Parts:
        flat = x.flatten(0, 1)
        return Parts(flat[self.text], flat[self.audio])

    def join(self, parts: Parts) -> Float[Tensor, "B S W"]:
        # Padding gets zeros; its keys are masked.
        flat = parts.text.new_zeros(self.batch_size * self.num_steps, parts.text.shape[-1])
        flat = flat.index_copy(0, self.text, parts.text).index_copy(0, self.audio, parts.audio.to(flat.dtype))
        return flat.view(self.batch_size, self.num_steps, -1)
