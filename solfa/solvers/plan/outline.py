"""What a solver will build, known before anything large is allocated: networks on torch's meta device, and costs."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from torch import Tensor, nn

from solfa.data.batching.modes import Pad
from solfa.data.batching.stage_batches import Batching
from solfa.data.sources.stage_source import OpenedSource
from solfa.solvers.config import Precision
from solfa.solvers.optim.optimizer import OptimConfig

FLOAT_BYTES = 4


class Outline(NamedTuple):
    """The networks of a run and what an update costs; 0 where that is not known."""

    networks: Mapping[str, nn.Module]
    """By name; on the meta device they have shapes and no numbers."""
    averaged: tuple[str, ...] = ("model",)
    """The networks whose weights are averaged if `optim.ema` is set."""
    kept_bytes: float = 0.0
    """What one row of a batch keeps for the backward pass, in float32, at least."""
    row_operations: float = 0.0
    """The floating point operations of one row, forward and backward, at least."""
    smaller: str = "choose a smaller model with model=..."
    """What to set for a model that takes less."""

    @property
    def parameters(self) -> int:
        """How many parameters there are."""
        return sum(parameter.numel() for parameter in _distinct(self.networks.values()))

    @property
    def trained(self) -> int:
        """How many of them are trained."""
        return sum(parameter.numel() for parameter in _distinct(self.networks.values()) if parameter.requires_grad)


def longest_row(dataset: Batching | None, source: OpenedSource) -> int:
    """Find how many frames a row of a training batch has, at most."""
    rows = None if dataset is None else dataset.rows("train", source)
    return int(source.num_frames.max()) if rows is None or isinstance(rows, Pad) else rows.num_frames


class MemoryNeeds(NamedTuple):
    """Bytes of one process."""

    weights: float
    gradients: float
    optimizer: float
    averages: float
    activations: float
    """What an update keeps for the backward pass, at least; 0 if not known."""

    @property
    def lasting(self) -> float:
        """What is there from the first update to the last."""
        return self.weights + self.gradients + self.optimizer + self.averages


def memory_needs(
    outline: Outline, optim: OptimConfig, precision: Precision, rows: int, world_size: int, *, is_sharded: bool
) -> MemoryNeeds:
    """Add up what a process needs for batches of `rows`; sharded networks (FSDP) are divided among all."""
    modules = list(outline.networks.values())
    parameters = _distinct(modules)
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    averaged = _distinct(outline.networks[name] for name in outline.averaged if name in outline.networks)
    share = (0.5 if precision == "bf16-true" else 1.0) / (world_size if is_sharded else 1)
    weights = _bytes(parameters) + _bytes({id(held): held for module in modules for held in module.buffers()}.values())
    # Processes that hold whole networks send their gradients through buffers of the same size.
    copies = 2 if world_size > 1 and not is_sharded else 1
    ema = FLOAT_BYTES * sum(parameter.numel() for parameter in averaged if parameter.requires_grad)
    return MemoryNeeds(
        weights=weights * share,
        gradients=copies * _bytes(trained) * share,
        optimizer=optim.optimizer.num_states * _bytes(trained) * share,
        averages=0.0 if optim.ema is None else ema / (world_size if is_sharded else 1),
        activations=rows * outline.kept_bytes * (1.0 if precision == "32-true" else 0.5),
    )


def _distinct(modules: Iterable[nn.Module]) -> list[nn.Parameter]:
    return list({id(found): found for module in modules for found in module.parameters()}.values())


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
