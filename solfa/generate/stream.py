"""Hear clips while they are being drawn, from models that give samples in order."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from solfa.ops.temperature import TemperatureSemantics


class AudioBlock(NamedTuple):
    """The next samples of a clip, `[C, n]` floats with full scale at 1."""

    name: str
    audio: Tensor
    sample_rate: int
    is_last: bool


OnAudio = Callable[[AudioBlock], None]
"""Receives the blocks of all clips as soon as they are drawn, including clips that will be rejected."""


@runtime_checkable
class DrawsSamples(Protocol):
    """A generator that draws one sample after another, each from the model's distribution."""

    @property
    def temperature_kinds(self) -> Sequence[TemperatureSemantics]:
        """List the temperature semantics that these distributions support."""
        ...
