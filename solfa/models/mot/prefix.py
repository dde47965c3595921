"""What audio attends to in the texts before it: the frozen base's keys and values, padded to the longest text.

They depend only on the text, so they are computed without a graph, once per caption.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


class TextIds(NamedTuple):
    """Texts as tokens, padded on the right, for running them together with the audio."""

    ids: Int64[Tensor, "B L"]
    lengths: Int64[Tensor, "B"]


class TextPrefix(NamedTuple):
    """What audio attends to in each caption: the keys and values of its tokens; a caption may be empty.

    A tuple, because mixed precision casts a model's arguments and cannot handle frozen dataclasses.
    """

    keys: Float[Tensor, "layers B H L E"]
    values: Float[Tensor, "layers B H L E"]
    lengths: Int64[Tensor, "B"]
    """The number of tokens in each text; the rest is padding, which nothing attends to."""
    null: "TextPrefix | None" = None
    """The empty text, as a single row: what guidance moves away from."""

    def num_rows(self) -> dict[str, int]:
        """Return how many clips the texts are for."""
        return {"text": len(self.lengths)}

    @property
    def num_steps(self) -> int:
        """The places that the longest text takes up in a cache."""
        return self.keys.shape[3]

    @property
    def is_none(self) -> bool:
        """Whether there is nothing to guide with."""
        return self.null is None

    @property
    def mask(self) -> Bool[Tensor, "B L"] | None:
        """False for padding; None if there is none."""
        if bool((self.lengths == self.num_steps).all()):
            return None
        return torch.arange(self.num_steps, device=self.lengths.device) < self.lengths[:, None]

    def doubled_with_null(self) -> "TextPrefix":
        """Return the rows, then as many of the empty text: the doubled batch of guidance."""
        assert self.null is not None
        absent = unpadded(self.null)[0]
        return join_texts([*unpadded(self), *[absent] * len(self.lengths)])


def join_texts(
    texts: Sequence[Float[Tensor, "parts H _ E"]], null: Float[Tensor, "parts H _ E"] | None = None
) -> TextPrefix:
    """Pad what the base stores for each text (all keys, then all values) to the longest."""
    lengths = torch.tensor([text.shape[2] for text in texts], dtype=torch.int64, device=texts[0].device)
    padded = pad_sequence([text.permute(2, 0, 1, 3) for text in texts], batch_first=True)  # [B, L, parts, H, E]
    keys, values = padded.permute(2, 0, 3, 1, 4).chunk(2)
    return TextPrefix(keys, values, lengths, None if null is None else join_texts([null]))


def unpadded(prefix: TextPrefix) -> list[Float[Tensor, "parts H _ E"]]:
    """Return what the base stores for each text: the inverse of `join_texts`."""
    both = torch.cat([prefix.keys, prefix.values])
    return [both[:, row, :, :length] for row, length in enumerate(prefix.lengths.tolist())]
