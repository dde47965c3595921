"""What a language model is conditioned on, already embedded at its width.

An absent condition (dropped in training, or the unconditional half of guidance) is zeros that are attended to: layers
without biases turn them into exactly zero, whereas masking a whole row would give NaN.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor


class Conditions(NamedTuple):
    """What a codec language model is conditioned on, one row per clip; None for a way that is not used."""

    cross: Float[Tensor, "B L D"] | None = None
    """For every layer's cross-attention."""
    cross_mask: Bool[Tensor, "B L"] | None = None
    """False where `cross` is padding; None if there is none. Every row has at least one True."""
    prepended: Float[Tensor, "B P D"] | None = None
    """Comes before the first step."""
    summed: Float[Tensor, "B 1 D"] | None = None
    """Added to every step."""
    pulses: Float[Tensor, "B 1"] | None = None
    """Beats per step for the model's clock; 0 where no tempo is known."""

    @classmethod
    def none(cls) -> "Conditions":
        return cls()

    @property
    def is_none(self) -> bool:
        return all(part is None for part in self)

    @property
    def num_steps(self) -> int:
        """The places that prepended conditions take up in a cache."""
        return 0 if self.prepended is None else self.prepended.shape[1]

    def num_rows(self) -> dict[str, int]:
        """Return how many clips each part is for."""
        return {name: len(rows) for name, rows in self._asdict().items() if rows is not None}

    def doubled_with_null(self) -> "Conditions":
        """Return the rows, then as many with every condition absent: the doubled batch of classifier-free guidance."""
        return Conditions(
            cross=_with_zeros(self.cross),
            cross_mask=None if self.cross_mask is None else torch.cat([self.cross_mask, _all_true(self.cross_mask)]),
            prepended=_with_zeros(self.prepended),
            summed=_with_zeros(self.summed),
            pulses=_with_zeros(self.pulses),
        )


def _with_zeros(rows: Tensor | None) -> Tensor | None:
    return None if rows is None else torch.cat([rows, torch.zeros_like(rows)])


def _all_true(mask: Tensor) -> Tensor:
    return torch.ones_like(mask)
