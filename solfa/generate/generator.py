"""The interface of every trained model: requests in, clips out, with or without a trainer around it.

    experiment's folder ──► build(config, data_facts) ──► weights loaded into `network` ──► draw(requests, ...)

`solfa.load_model` takes this path; a solver wraps the network it trains in a generator for its `generate` stage. If
your own solver names a class as its `Generator`, `solfa generate` works with it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from solfa.codecs.protocol import Codec
from solfa.config import Config
from solfa.config.base import parse_parameters
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.request import ClipRequest
from solfa.generate.stream import OnAudio

OnStep = Callable[[int, int], None]
"""Called after each step with how much is done and the total, in the units that the model draws."""


@runtime_checkable
class ClipGenerator(Protocol):
    """A network that generates clips, and the codec that decodes them."""

    @classmethod
    def build(cls, config: Mapping[str, Any], data_facts: Mapping[str, Any]) -> "ClipGenerator":
        """Build the untrained network from an experiment's settings and what it knew about its data."""
        ...

    @property
    def network(self) -> nn.Module:
        """The trained network; a checkpoint holds its weights under the name `model`."""
        ...

    @property
    def sampling(self) -> Config:
        """How clips are drawn by default; its fields are the available options."""
        ...

    @property
    def codec(self) -> Codec:
        """The codec that decodes, on the network's device."""
        ...

    @property
    def conditions(self) -> Mapping[str, str]:
        """What the model can be conditioned on: name to kind (`text`, `labels` or `number`)."""
        ...

    def draw(
        self,
        requests: Sequence[ClipRequest],
        options: Mapping[str, Any],
        on_step: OnStep,
        on_audio: OnAudio | None = None,
    ) -> Iterator[GeneratedClip]:
        """Draw clips; `options` override fields of `sampling`. An invalid request is refused right away."""
        ...


def check_options(generator: type[ClipGenerator], options: Mapping[str, Any]) -> None:
    """Refuse options that do not fit a class of generators; nothing is loaded for that.

    A class may name the type of its `sampling` as `Options`; one that does not finds out when it draws.
    """
    known: type[Config] | None = getattr(generator, "Options", None)
    if known is None:
        return
    for name in options:
        if name not in known.model_fields:
            raise ConfigError(f"`{name}`: models of this kind do not have this option; leave it out")
    parse_parameters(known, options)


def check_edits(generator: type[ClipGenerator], requests: Sequence[ClipRequest]) -> None:
    """Refuse to change recordings with models that cannot; a class that can says so with `edits`."""
    if any(request.edit is not None for request in requests) and not getattr(generator, "edits", False):
        raise ConfigError(
            "`init`, `inpaint`: only models of latents make clips from recordings, and this is another kind of model; "
            "leave it out, or use `prompt` to continue a recording"
        )


@runtime_checkable
class HasLikelihood(Protocol):
    """A generator whose model can tell how probable a clip is."""

    def log_prob(self, array: torch.Tensor, text: str | None, conditions: Mapping[str, Any]) -> float:
        """Return the log-probability, in nats, of an encoded clip `[T, K]` given the model's conditions."""
        ...


def device_of(network: nn.Module) -> torch.device:
    """Return the device of a network's first parameter."""
    parameter = next(network.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device
