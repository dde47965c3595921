"""Gather and scatter the state of networks and optimisers that FSDP shards across devices."""

from typing import Any

from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.optim import Optimizer

_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


def gather_module(module: nn.Module) -> dict[str, Any]:
    """Gather the full parameters from all devices on the host."""
    return get_model_state_dict(module, options=_WHOLE)


def scatter_module(module: nn.Module, state: dict[str, Any]) -> None:
    """Distribute full parameters to the devices."""
    set_model_state_dict(module, state, options=_WHOLE)


def gather_optimizer(module: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Gather the full optimiser state of a sharded module on the host."""
    return get_optimizer_state_dict(module, optimizer, options=_WHOLE)


def scatter_optimizer(module: nn.Module, optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Distribute a full optimiser state to the devices."""
    set_optimizer_state_dict(module, optimizer, optim_state_dict=state, options=_WHOLE)
