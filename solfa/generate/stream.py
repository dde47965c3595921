"""Hear clips while they are drawn: what a task offers whose model gives samples in order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from solfa.generate.clip import GeneratedClip
from solfa.generate.request import AudioRequest
from solfa.ops.temperature import TemperatureSemantics


class AudioBlock(NamedTuple):
    """The next samples of a clip, `[C, n]` floats with full scale at one."""

    name: str
    audio: Tensor
    sample_rate: int
    is_last: bool


OnAudio = Callable[[AudioBlock], None]


@runtime_checkable
class DrawsSamples(Protocol):
    """A task that draws one sample after the other, each from the distribution that its model gives."""

    @property
    def temperature_kinds(self) -> Sequence[TemperatureSemantics]:
        """Name what a temperature may mean for these distributions."""
        ...

    def stream_audio(
        self,
        requests: Sequence[AudioRequest],
        options: Mapping[str, Any],
        on_step: Callable[[int, int], None],
        on_audio: OnAudio,
    ) -> Iterator[GeneratedClip]:
        """Generate as `generate_audio` does, and hand over the blocks of all clips as soon as they are drawn."""
        ...
