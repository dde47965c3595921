"""Where a run computes: set up Lightning Fabric from the config and the environment of the processes."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer

from solfa.environment.accelerator import choose_device, gains_by_bf16
from solfa.environment.collector import collector_paused
from solfa.environment.ranks import among_devices, read_rank
from solfa.errors import ConfigError
from solfa.solvers.config import Precision, SolverConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.strategy import Strategy

C = TypeVar("C", bound=SolverConfig)


def fastest_precision(device: str) -> Precision:
    """Choose what `precision=auto` means on this machine."""
    return "bf16-mixed" if gains_by_bf16(choose_device(device)) else "32-true"


def settle_precision(cfg: C) -> C:
    """Replace `precision=auto`, if nobody has before; processes that share a run cannot each choose for themselves."""
    if cfg.precision != "auto":
        return cfg
    if read_rank(os.environ).world_size > 1:
        raise ConfigError("precision: auto is only for one process, found several; set precision=32-true or bf16-mixed")
    return cfg.model_copy(update={"precision": fastest_precision(cfg.device)})


def start_fabric(cfg: SolverConfig) -> "Fabric":
    """Join the other processes of the run, if any. Nothing imports Fabric before this."""
    assert cfg.precision != "auto", "`settle_precision` comes first"
    if cfg.num_threads is not None:
        torch.set_num_threads(cfg.num_threads)
    rank = read_rank(os.environ)
    accelerator = choose_device(cfg.device)
    if cfg.strategy == "fsdp" and accelerator != "cuda":
        raise ConfigError(f"strategy: fsdp needs GPUs, found device {accelerator}; use ddp or auto")
    if rank.world_size % cfg.num_nodes:
        raise ConfigError(
            f"num_nodes: {rank.world_size} processes cannot be divided evenly among {cfg.num_nodes} nodes"
        )
    with collector_paused():  # it imports half of torch's compiler
        from lightning_fabric import Fabric

        from solfa.solvers.fabric.launch import Launched

    rank = rank._replace(local_world_size=rank.world_size // cfg.num_nodes)
    if accelerator == "cuda":
        rank = among_devices(rank, torch.cuda.device_count())
    fabric = Fabric(
        accelerator=accelerator,
        devices=rank.local_world_size,
        num_nodes=rank.world_size // rank.local_world_size,
        strategy=_strategy(cfg, rank.world_size),
        precision=cfg.precision,
        plugins=[Launched(rank, os.environ)],
    )
    fabric.launch()
    return fabric


def _strategy(cfg: SolverConfig, world_size: int) -> "Strategy | str":
    from lightning_fabric.strategies.ddp import DDPStrategy
    from lightning_fabric.strategies.fsdp import FSDPStrategy

    if cfg.strategy == "fsdp":
        return FSDPStrategy(state_dict_type="full")
    if world_size > 1 or cfg.strategy == "ddp":
        return DDPStrategy()
    return "auto"


def spread(
    fabric: "Fabric", modules: Mapping[str, nn.Module], optimizers: Mapping[str, Optimizer], *, compiled: bool = False
) -> dict[str, nn.Module | Optimizer]:
    """Move networks and optimisers to their devices; return, by name, the wrappers that replace them."""
    learning = {name: module for name, module in modules.items() if _learns(module)}
    for module in learning.values() if compiled else ():
        module.compile()  # in place, so that the names of weights in checkpoints stay what they are
    for name, module in modules.items():
        if name not in learning:
            module.to(fabric.device)
    if len(learning) == 1 and optimizers:
        # Set up together, because sharding replaces the parameters that the optimiser holds.
        (module,) = learning.values()
        return dict(zip([*learning, *optimizers], fabric.setup(module, *optimizers.values()), strict=True))
    wrapped: dict[str, Any] = {name: fabric.setup_module(module) for name, module in learning.items()}
    return {**wrapped, **{name: fabric.setup_optimizers(optimizer) for name, optimizer in optimizers.items()}}


def _learns(module: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


def gather_objects(fabric: "Fabric", value: Any) -> list[Any]:
    """Collect one plain value from every process, in rank order, on every process."""
    if fabric.world_size == 1:
        return [value]
    gathered: list[Any] = [None] * fabric.world_size
    torch.distributed.all_gather_object(gathered, value)
    return gathered
