"""Recognise Fabric's wrappers around networks and optimisers without importing it.

Fabric takes seconds to import. Reading settings, reporting a typo and starting worker processes need the solvers but
not Fabric, so nothing imports it before `start_fabric`; until then, nothing can be one of its wrappers.
"""

import sys
from typing import Any

from torch import nn


def is_wrapped_module(value: Any) -> bool:
    """Say whether a module is wrapped by Fabric."""
    return isinstance(value, _class("_FabricModule"))


def is_wrapped_optimizer(value: Any) -> bool:
    """Say whether an optimiser is wrapped by Fabric."""
    return isinstance(value, _class("_FabricOptimizer"))


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the module as the solver built it, without Fabric's wrapper.

    >>> import torch
    >>> from lightning_fabric import Fabric
    >>> from solfa.solvers import unwrapped
    >>> network = torch.nn.Linear(2, 2)
    >>> unwrapped(Fabric(accelerator="cpu").setup_module(network)) is network
    True
    """
    if not is_wrapped_module(module):
        return module
    inner = module.module
    assert isinstance(inner, nn.Module)
    return inner


def _class(name: str) -> Any:
    wrappers = sys.modules.get("lightning_fabric.wrappers")
    return () if wrappers is None else getattr(wrappers, name)
