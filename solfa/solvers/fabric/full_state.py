"""The whole state of networks and optimisers whose parameters are spread over several devices (FSDP)."""

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
    """Collect the parameters of all devices on the host."""
    return get_model_state_dict(module, options=_WHOLE)


def scatter_module(module: nn.Module, state: dict[str, Any]) -> None:
    """Deal whole parameters to the devices."""
    set_model_state_dict(module, state, options=_WHOLE)


def gather_optimizer(module: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Collect the state of an optimiser of a sharded module on the host."""
    return get_optimizer_state_dict(module, optimizer, options=_WHOLE)


def scatter_optimizer(module: nn.Module, optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Deal the whole state of an optimiser to the devices."""
    set_optimizer_state_dict(module, optimizer, optim_state_dict=state, options=_WHOLE)
