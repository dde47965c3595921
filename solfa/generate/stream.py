"""Hear clips while they are drawn: what a model offers that gives samples in order."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from solfa.ops.temperature import TemperatureSemantics


class AudioBlock(NamedTuple):
    """The next samples of a clip, `[C, n]` floats with full scale at one."""

    name: str
    audio: Tensor
    sample_rate: int
    is_last: bool


OnAudio = Callable[[AudioBlock], None]
"""Told of the blocks of all clips as soon as they are drawn, of those that will be rejected, too."""


@runtime_checkable
class DrawsSamples(Protocol):
    """A generator that draws one sample after the other, each from the distribution that its model gives."""

    @property
    def temperature_kinds(self) -> Sequence[TemperatureSemantics]:
        """Name what a temperature may mean for these distributions."""
        ...
