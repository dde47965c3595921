"""The weights that an adapter is put on: loaded whenever the run starts or resumes, because checkpoints lack them."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from torch import nn

from solfa.errors import ConfigError
from solfa.generate.base_weights import read_base
from solfa.models.adapters.attachment import Attached, adapter_of, base_sha256, fresh_parts, without_base
from solfa.pretrained.origin import Origin, origin
from solfa.solvers.config import SolverConfig
from solfa.solvers.fabric.wrappers import unwrapped
from solfa.xp.state_file import load_module


class ReadsWeights(Protocol):
    """A solver that can load weights of others."""

    @property
    def reads_files(self) -> bool: ...
    def load_pretrained(self, location: str) -> str: ...


class Base(NamedTuple):
    """What was loaded."""

    origin: Origin
    fresh: list[str]
    """What the base did not have."""
    told: str


def load_base(name: str, network: nn.Module, location: str, solver: ReadsWeights) -> Base:
    """Load the weights of a base into a network that the solver knows under this name."""
    found = read_base(location, reads_files=solver.reads_files)
    if found is not None:
        if name not in found.networks:
            raise ConfigError(f"continue_from: {found.path} has no {name}; it belongs to another solver")
        load_module(name, network, found.networks[name])
        fresh, told = [], f"the weights of {found.path}"
    else:
        before = without_base(network)
        told = solver.load_pretrained(location)
        fresh = fresh_parts(network, before)
    return Base(origin(location, base_sha256(network, fresh)), fresh, told)


def expect_adapter(cfg: SolverConfig, modules: Mapping[str, nn.Module]) -> None:
    """Refuse an adapter that the solver did not put on any network."""
    if cfg.adapter is not None and attached_to(modules) is None:
        raise ConfigError(
            f"adapter: the solver {cfg.solver} does not train adapters; leave it out, or call self.add_adapter() "
            "in its build_model, before the optimiser is built"
        )


def attached_to(modules: Mapping[str, nn.Module]) -> Attached | None:
    """Find the adapter among the networks of a solver."""
    found = (adapter_of(unwrapped(module)) for module in modules.values())
    return next((attached for attached in found if attached is not None), None)
