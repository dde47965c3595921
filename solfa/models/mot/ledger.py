"""Record where every parameter came from: loaded, drawn or copied; one that was never written is an error.

Parameters are filled with NaN before anything is written, so that a forgotten one cannot pass for a small number.
"""

from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor, nn

from solfa.errors import ConfigError
from solfa.nn.linears.low_rank import LowRank


class ParameterOrigin(NamedTuple):
    """How a parameter got its initial value."""

    way: str
    """`loaded` from a checkpoint, or `initialised`."""
    source: str
    """The tensor or the rule."""


class LoadingReport(NamedTuple):
    """Where the initial value of every parameter of a mixture came from, and which parameters are trained."""

    origins: dict[str, ParameterOrigin]
    trained: frozenset[str]
    num_trained: int
    """Numbers, not tensors."""
    num_frozen: int
    """On the audio side; the base's come on top."""

    def __str__(self) -> str:
        ways = Counter(origin.way for origin in self.origins.values())
        told = ", ".join(f"{count} tensors {way}" for way, count in sorted(ways.items()))
        return f"{told}; {self.num_trained:,} parameters trained, {self.num_frozen:,} frozen on the audio side"


class Ledger:
    """Writes parameters and records where their values came from."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._origins: dict[int, ParameterOrigin] = {}
        poison(module)

    def load(self, parameter: Tensor, value: Tensor, source: str) -> None:
        """Copy a tensor from a checkpoint."""
        if parameter.shape != value.shape:
            raise ConfigError(
                f"{source}: expected shape {list(parameter.shape)}, found {list(value.shape)}; "
                "use a donor and a base that fit the settings"
            )
        self._write(parameter, value, ParameterOrigin("loaded", source))

    def draw(self, parameter: Tensor, std: float) -> None:
        """Draw from a normal distribution; a standard deviation of 0 gives zeros."""
        drawn = torch.zeros(parameter.shape) if std == 0 else torch.randn(parameter.shape) * std
        self._write(parameter, drawn, ParameterOrigin("initialised", "zeros" if std == 0 else f"normal, std {std:.3g}"))

    def fill(self, parameter: Tensor, value: float) -> None:
        """Fill it with one number."""
        self._write(parameter, torch.full(parameter.shape, value), ParameterOrigin("initialised", f"{value:g}"))

    @torch.no_grad()
    def _write(self, parameter: Tensor, value: Tensor, origin: ParameterOrigin) -> None:
        assert id(parameter) not in self._origins, "a parameter is written once"
        parameter.copy_(value)
        self._origins[id(parameter)] = origin

    def close(self, where: str) -> LoadingReport:
        """Return the report; a parameter that was never written, or that is not finite, is an error."""
        named = dict(self._module.named_parameters())
        unwritten = [name for name, parameter in named.items() if id(parameter) not in self._origins]
        if unwritten:
            raise ConfigError(f"{where}: {len(unwritten)} parameters were never written, first {unwritten[0]}")
        broken = [name for name, parameter in named.items() if not bool(torch.isfinite(parameter).all())]
        if broken:
            origin = self._origins[id(named[broken[0]])]
            raise ConfigError(
                f"{where}: expected finite weights, found NaN or infinity in {broken[0]} ({origin.way} from "
                f"{origin.source}); the checkpoint is broken"
            )
        trained = {name: parameter.numel() for name, parameter in named.items() if parameter.requires_grad}
        return LoadingReport(
            {name: self._origins[id(parameter)] for name, parameter in named.items()},
            frozenset(trained),
            sum(trained.values()),
            sum(parameter.numel() for parameter in named.values()) - sum(trained.values()),
        )


@torch.no_grad()
def poison(module: nn.Module) -> None:
    """Fill every parameter with NaN."""
    for parameter in module.parameters():
        parameter.fill_(torch.nan)


def load_like(module: nn.Module, source: nn.Module, ledger: Ledger, where: str) -> None:
    """Load every parameter from its namesake."""
    theirs = dict(source.named_parameters())
    for name, parameter in module.named_parameters():
        ledger.load(parameter, theirs[name].detach(), f"{where}.{name}")


def draw_low_rank(part: LowRank, ledger: Ledger) -> None:
    """Initialise a low-rank product at zero, with a random input matrix so that it can learn."""
    ledger.draw(part.down.weight, part.down.in_features**-0.5)
    ledger.draw(part.up.weight, 0.0)
