"""What every kind of trained model offers: requests in, clips out, with or without a trainer around it.

    experiment's folder ──► build(config, data_facts) ──► weights loaded into `network` ──► draw(requests, ...)

`solfa.load_model` goes this way for a person; a solver makes one around the network that it trains, for its `generate`
stage. A task of one's own names its class as `Generator`, and `solfa generate` works with it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from solfa.codecs.protocol import Codec
from solfa.config import Config
from solfa.generate.clip import GeneratedClip
from solfa.generate.request import ClipRequest
from solfa.generate.stream import OnAudio

OnStep = Callable[[int, int], None]
"""Told after each step how much is done and how much there will be, in the units that the model draws."""


@runtime_checkable
class ClipGenerator(Protocol):
    """A network that makes clips, and the codec that makes them sound."""

    @classmethod
    def build(cls, config: Mapping[str, Any], data_facts: Mapping[str, Any]) -> "ClipGenerator":
        """Build the network, untrained, from the settings of an experiment and what it knew of its data."""
        ...

    @property
    def network(self) -> nn.Module:
        """What was trained: a checkpoint holds its weights under the name `model`."""
        ...

    @property
    def sampling(self) -> Config:
        """How clips are drawn where nobody says otherwise: its fields are the options there are."""
        ...

    @property
    def codec(self) -> Codec:
        """What decodes, on the device of the network."""
        ...

    @property
    def conditions(self) -> Mapping[str, str]:
        """What the model can be told, by name: `text`, `labels` or `number`."""
        ...

    def draw(
        self,
        requests: Sequence[ClipRequest],
        options: Mapping[str, Any],
        on_step: OnStep,
        on_audio: OnAudio | None = None,
    ) -> Iterator[GeneratedClip]:
        """Draw clips; `options` replace fields of `sampling`. A request that makes no sense is refused at once."""
        ...


@runtime_checkable
class HasLikelihood(Protocol):
    """A generator whose model says how probable a clip is."""

    def log_prob(self, array: torch.Tensor, text: str | None, attributes: Mapping[str, Any]) -> float:
        """Give the log-probability in nats of what the codec made of a clip, `[T, K]`, given what the model is told."""
        ...


def device_of(network: nn.Module) -> torch.device:
    """Say where a network is: where its first parameter is."""
    parameter = next(network.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device
