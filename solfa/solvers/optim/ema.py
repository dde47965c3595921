"""A moving average of parameters, and a way to swap it in temporarily.

Buffers are not averaged: what a module counts or collects itself (batch statistics, codebooks) stays as it is.
Frozen parameters do not move, so they have no average.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from solfa.config import Config, nearest
from solfa.errors import ConfigError


class EmaConfig(Config):
    """How slowly the average follows."""

    decay: float = Field(default=0.99, ge=0.0, lt=1.0)
    every: int = Field(default=1, ge=1)
    """Optimiser updates per update of the average."""
    warmup: bool = False
    """Follow faster at first: update n of the average uses a decay of at most (1 + n) / (10 + n)."""

    def build(self, modules: Mapping[str, nn.Module]) -> "Ema":
        """Start an average from the current parameters."""
        return Ema(modules, self)


class Ema:
    """The moving average of all trainable parameters of some modules, starting from their current values.

    >>> import torch
    >>> from solfa.solvers.optim import Ema, EmaConfig
    >>> model = torch.nn.Linear(2, 2, bias=False)
    >>> ema = Ema({"model": model}, EmaConfig(decay=0.9))
    >>> ema.update()  # after every update of the optimiser
    >>> with ema.swapped():  # validate with the averages
    ...     _ = model(torch.zeros(1, 2))
    >>> ema.updates
    1
    """

    def __init__(self, modules: Mapping[str, nn.Module], config: EmaConfig) -> None:
        self.config = config
        self.updates = 0
        self._names, self._parameters = _trained(modules)
        self._averages = [_precise(parameter).clone() for parameter in self._parameters]
        self._is_swapped = False

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the parameters; call this after every optimiser update."""
        if self._is_swapped:
            raise RuntimeError("the averages are swapped in: leave swapped() before calling update()")
        self.updates += 1
        if self.updates % self.config.every or not self._averages:
            return
        current = [_precise(parameter) for parameter in self._parameters]
        torch._foreach_lerp_(self._averages, current, 1.0 - self.current_decay)

    @property
    def current_decay(self) -> float:
        """The decay of the latest average."""
        count = self.updates // self.config.every
        return min(self.config.decay, (1 + count) / (10 + count)) if self.config.warmup else self.config.decay

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Swap the averages in; afterwards the parameters are restored bit for bit."""
        if self._is_swapped:
            raise RuntimeError("the averages are already swapped in: swapped() cannot be nested")
        kept = [parameter.detach().clone() for parameter in self._parameters]
        self._is_swapped = True
        try:
            self._fill(self._averages)
            yield
        finally:
            self._fill(kept)
            self._is_swapped = False

    def state_dict(self) -> dict[str, Any]:
        """Return the count and the averages by module and parameter; the tensors are not copies."""
        averages: dict[str, dict[str, Tensor]] = {}
        for (module, name), average in zip(self._names, self._averages, strict=True):
            averages.setdefault(module, {})[name] = average
        return {"updates": self.updates, "averages": averages}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the averages; every one must exist, fit, and belong to a parameter."""
        found = {(module, name): tensor for module, part in state["averages"].items() for name, tensor in part.items()}
        _check_names(self._names, list(found))
        for key, average in zip(self._names, self._averages, strict=True):
            if average.shape != found[key].shape:
                raise ConfigError(
                    f"the average of {'.'.join(key)}: expected shape {tuple(average.shape)}, "
                    f"found {tuple(found[key].shape)} in the checkpoint"
                )
        for key, average in zip(self._names, self._averages, strict=True):
            average.copy_(found[key])
        self.updates = int(state["updates"])

    @torch.no_grad()
    def _fill(self, values: list[Tensor]) -> None:
        if values:
            torch._foreach_copy_(self._parameters, values)


def _trained(modules: Mapping[str, nn.Module]) -> tuple[list[tuple[str, str]], list[Tensor]]:
    """List the distinct parameters that require a gradient; a shared one belongs to the first module."""
    found: dict[int, tuple[tuple[str, str], Tensor]] = {}
    for module_name, module in modules.items():
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                found.setdefault(id(parameter), ((module_name, name), parameter))
    return [key for key, _ in found.values()], [parameter for _, parameter in found.values()]


def _precise(parameter: Tensor) -> Tensor:
    """Return the tensor in at least single precision: a slow average in bfloat16 would never move."""
    return parameter.detach().to(torch.promote_types(parameter.dtype, torch.float32))


def _check_names(expected: list[tuple[str, str]], found: list[tuple[str, str]]) -> None:
    missing = [".".join(key) for key in expected if key not in set(found)]
    unknown = [".".join(key) for key in found if key not in set(expected)]
    if missing:
        raise ConfigError(f"the checkpoint has no average for {_few(missing)}{nearest(missing[0], unknown)}")
    if unknown:
        raise ConfigError(f"the checkpoint has an average for {_few(unknown)}, which this model does not train")


def _few(names: list[str]) -> str:
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + rest
