"""The registered attributes of a solver: those that are saved, averaged, or kept from the best epoch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn
from torch.optim import Optimizer

from solfa.errors import ConfigError
from solfa.models.adapters.attachment import adapter_of, load_adapter, stored_adapter
from solfa.solvers.fabric.wrappers import is_wrapped_optimizer, unwrapped
from solfa.xp.state_file import load_module


@runtime_checkable
class Stateful(Protocol):
    """Anything with a state that can be saved and restored."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any: ...


def _is_sharded(module: nn.Module) -> bool:
    inner = getattr(module, "_forward_module", None)
    return type(inner).__name__ == "FullyShardedDataParallel"


def state_of(value: Any, sharded_by: nn.Module | None = None) -> Any:
    """Return the state of a registered attribute as tensors and plain values."""
    if isinstance(value, nn.Module) and _is_sharded(value):
        from solfa.solvers.fabric.full_state import gather_module

        return gather_module(value)
    if isinstance(value, nn.Module):
        network = unwrapped(value)
        return network.state_dict() if adapter_of(network) is None else stored_adapter(network)
    if is_wrapped_optimizer(value) and sharded_by is not None:
        from solfa.solvers.fabric.full_state import gather_optimizer

        return gather_optimizer(sharded_by, value.optimizer)
    return value.state_dict() if isinstance(value, Stateful) else value


def load_state(name: str, value: Any, state: Any, sharded_by: nn.Module | None = None) -> Any:
    """Restore a registered attribute in place and return it; a value without a state is replaced."""
    if isinstance(value, nn.Module) and _is_sharded(value):
        from solfa.solvers.fabric.full_state import scatter_module

        scatter_module(value, state)
    elif isinstance(value, nn.Module) and adapter_of(unwrapped(value)) is not None:
        load_adapter(unwrapped(value), state, name)
    elif isinstance(value, nn.Module):
        load_module(name, unwrapped(value), state)
    elif is_wrapped_optimizer(value) and sharded_by is not None:
        from solfa.solvers.fabric.full_state import scatter_optimizer

        scatter_optimizer(sharded_by, value.optimizer, state)
    elif isinstance(value, Stateful):
        value.load_state_dict(state)
    else:
        return state
    return value


class Registry:
    """The names that a solver registered, by purpose."""

    def __init__(self, attribute: Callable[[str], Any], set_attribute: Callable[[str, Any], None]) -> None:
        self._attribute, self._set_attribute = attribute, set_attribute
        self.stateful: list[str] = []
        self.best: list[str] = []
        self.ema: list[str] = []

    def add(self, names: list[str], *names_of: str) -> None:
        """Add attributes to one of the lists; an attribute that does not exist is an error."""
        for name in names_of:
            self._attribute(name)
            if name not in names:
                names.append(name)

    def of_type(self, kind: type[Any]) -> dict[str, Any]:
        """Find the stateful attributes of a type."""
        values = {name: self._attribute(name) for name in self.stateful}
        return {name: value for name, value in values.items() if isinstance(value, kind)}

    @property
    def modules(self) -> dict[str, nn.Module]:
        """The networks among the stateful attributes."""
        return self.of_type(nn.Module)

    @property
    def optimizers(self) -> dict[str, Optimizer]:
        """The optimisers among the stateful attributes, wrapped or not."""
        values = {name: self._attribute(name) for name in self.stateful}
        return {
            name: value for name, value in values.items() if isinstance(value, Optimizer) or is_wrapped_optimizer(value)
        }

    def sharding_module(self) -> nn.Module | None:
        """Find the module that shards its parameters, and with them the optimiser's state."""
        return next((module for module in self.modules.values() if _is_sharded(module)), None)

    def states(self) -> dict[str, Any]:
        """Return the state of all stateful attributes."""
        sharded_by = self.sharding_module()
        return {name: state_of(self._attribute(name), sharded_by) for name in self.stateful}

    def load(self, states: Mapping[str, Any], names: Sequence[str] | None = None) -> None:
        """Restore the stateful attributes, or those that are named; a value without a state is replaced."""
        sharded_by = self.sharding_module()
        for name in self.stateful if names is None else names:
            if name not in states:
                raise ConfigError(f"checkpoint: it has no {name!r}, which this solver registers as stateful")
            self._set_attribute(name, load_state(name, self._attribute(name), states[name], sharded_by))

    def best_states(self) -> dict[str, Any]:
        """Return the state of the attributes that are kept from the best epoch."""
        return {name: state_of(self._attribute(name)) for name in self.best}

    def network_states(self) -> dict[str, Any]:
        """Return the states of the networks that people use: those with a best epoch, or all."""
        return {name: state_of(self._attribute(name)) for name in self.best or self.modules}

    @contextmanager
    def swapped(self, states: Mapping[str, Any]) -> Iterator[None]:
        """Swap other states into modules while the context is open; afterwards restore the old ones exactly."""
        before = {name: _copied(state_of(self._attribute(name))) for name in states}
        try:
            for name, state in states.items():
                load_state(name, self._attribute(name), state)
            yield
        finally:
            for name, state in before.items():
                load_state(name, self._attribute(name), state)


def _copied(state: Any) -> Any:
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, Mapping):
        return {key: _copied(value) for key, value in state.items()}
    return state


def check_modules(names: list[str], value_of: Callable[[str], Any], verb: str) -> None:
    """Refuse to average or keep anything but a network."""
    for name in names:
        if not isinstance(value_of(name), nn.Module):
            found = type(value_of(name)).__name__
            raise ConfigError(f"register_{verb}({name!r}): expected a torch module, found {found}")
