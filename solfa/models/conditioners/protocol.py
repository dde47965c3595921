"""The interface of conditioners: values become tensors on the host, tensors become vectors on the device.

    values (one per clip, None = absent) ── tokenize ──► tensors ── embed ──► embedding [B, L, D], mask [B, L]

An absent value is always zeros in the embedding and False in the mask, whatever the reason (no such metadata, dropped
in training, the unconditional half of guidance).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from solfa.config import Config

Tokens: TypeAlias = Mapping[str, Tensor]
"""One conditioner's share of a batch, before it is embedded."""


class Condition(NamedTuple):
    """The vectors of one attribute, one row per clip."""

    embedding: Float[Tensor, "B L D"]
    mask: Bool[Tensor, "B L"]
    """False for padding and absent rows."""


@runtime_checkable
class Conditioner(Protocol):
    """Embeds one attribute at the model's width."""

    def tokenize(self, values: Sequence[Any | None]) -> Tokens:
        """Turn the values of a batch into tensors, on the host."""
        ...

    def embed(self, tokens: Tokens) -> Condition:
        """Turn the tensors into vectors, on the device of the conditioner's parameters."""
        ...


@runtime_checkable
class LearnsVocabulary(Protocol):
    """A conditioner that must see the values of the data before it has parameters."""

    @property
    def learns(self) -> bool:
        """False if the config gives the vocabulary."""
        ...

    def fit(self, values: Iterable[Any | None]) -> None:
        """Learn from all values of the training data."""
        ...


@runtime_checkable
class SpellsTokens(Protocol):
    """A conditioner that can write what it reads of a value."""

    def spell(self, value: Any | None) -> str:
        """Write the tokens of a value."""
        ...


@runtime_checkable
class HasNearMisses(Protocol):
    """A conditioner that knows which values are easily taken for one another."""

    def near_misses(self, value: Any | None) -> Sequence[Any]:
        """List values that a clip could be heard as instead; none if the value says nothing."""
        ...


@runtime_checkable
class NumbersValues(Protocol):
    """A conditioner of a condition that has so many values and no others, so that a listener can tell them apart."""

    num_values: int

    def numbers(self, value: Any | None) -> Sequence[int]:
        """List the numbers, from 0, of the values that a clip counts as right with; none if the value says nothing."""
        ...


class AttributeConfig(Config):
    """The settings that every kind of attribute has."""

    source: str
    """`caption`, or the name of a metadata column."""
    fuse: Literal["cross", "prepend", "sum", "clock"]
    """Used for cross-attention, put before the first step, added to every step, or the pulse of the model's clock."""
    dropout: float = Field(default=0.0, ge=0.0, le=1.0)
    """How often this attribute alone is dropped in training; 0.1 is one clip in ten."""


def keep(embedding: Float[Tensor, "B L D"], mask: Bool[Tensor, "B L"]) -> Condition:
    """Make a condition from the positions that `mask` keeps."""
    # Zeroed after the projection, so that its bias does not show for absent values. Filling leaves the projection in
    # the graph, so that a batch without any value gives zero gradients; DistributedDataParallel waits for those.
    return Condition(embedding.masked_fill(~mask[..., None], 0.0), mask)
