"""The weights that a run started from, kept until it ends: to compute with them again, and to see how far they moved.

An adapter leaves them in the network; otherwise they are in a file of the experiment's folder.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import nn

from solfa.models.adapters.attachment import adapter_of, without_adapter
from solfa.models.adapters.merged_weights import layer_changes
from solfa.solvers.evidence.weight_change import Moved, moved_weights
from solfa.solvers.fabric.wrappers import unwrapped
from solfa.solvers.state.registry import Registry
from solfa.xp.layout import START
from solfa.xp.state_file import read_state, write_state


class StartingWeights:
    """Of the networks that a solver registered."""

    def __init__(self, registry: Registry, folder: Path) -> None:
        self._registry, self._path = registry, folder / START

    @property
    def are_kept(self) -> bool:
        """Whether they can still be had."""
        return self._adapted is not None or self._path.is_file()

    def keep(self, *, is_first_rank: bool) -> None:
        """Keep the current weights; every process takes part, the first one writes."""
        if self._adapted is None:
            states = self._registry.network_states()
            if is_first_rank:
                write_state(self._path, {"states": states})

    def forget(self) -> None:
        """Remove the file: nothing needs it any more."""
        self._path.unlink(missing_ok=True)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Compute with them while the context is open."""
        network = self._adapted
        if network is not None:
            with without_adapter(network):
                yield
            return
        with self._registry.swapped(read_state(self._path)["states"]):
            yield

    def moved(self) -> Iterator[Moved]:
        """Yield the weights that training may have changed, as they were and as they are now."""
        network = self._adapted
        if network is not None:
            attached = adapter_of(network)
            assert attached is not None
            yield from (Moved(f"{name}.weight", *weights) for name, *weights in layer_changes(attached.part))
            return
        before, after = read_state(self._path)["states"], self._registry.network_states()
        for name, state in before.items():
            prefix = "" if len(before) == 1 else f"{name}."
            yield from (moved._replace(name=f"{prefix}{moved.name}") for moved in moved_weights(state, after[name]))

    @property
    def _adapted(self) -> nn.Module | None:
        networks = map(unwrapped, self._registry.modules.values())
        return next((network for network in networks if adapter_of(network) is not None), None)
