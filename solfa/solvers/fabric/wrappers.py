"""What Fabric puts around networks and optimisers, recognised without importing it.

Fabric takes seconds to import. Reading settings, answering a typo and starting worker processes need the solvers but
not Fabric, so nothing imports it before `start_fabric`; until then, nothing can be one of its wrappers.
"""

import sys
from typing import Any

from torch import nn


def is_wrapped_module(value: Any) -> bool:
    """Tell whether a module is one that Fabric spreads over devices."""
    return isinstance(value, _class("_FabricModule"))


def is_wrapped_optimizer(value: Any) -> bool:
    """Tell whether an optimiser is one that Fabric steps."""
    return isinstance(value, _class("_FabricOptimizer"))


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the module as the solver built it, without what spreads it over devices."""
    if not is_wrapped_module(module):
        return module
    inner = module.module
    assert isinstance(inner, nn.Module)
    return inner


def _class(name: str) -> Any:
    wrappers = sys.modules.get("lightning.fabric.wrappers")
    return () if wrappers is None else getattr(wrappers, name)
