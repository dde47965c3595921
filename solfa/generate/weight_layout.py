"""How the weights of a model that only generates are stored; on a CPU, fewer bits are read faster."""

from typing import Protocol, get_args, runtime_checkable

import torch

from solfa.config import nearest
from solfa.errors import ConfigError
from solfa.models.lm.weight_layouts import WeightLayout


@runtime_checkable
class LaysOutWeights(Protocol):
    """A generator whose weights can be laid out for fast generation on a CPU."""

    def lay_out_weights(self, layout: WeightLayout) -> None:
        """Replace the weights by others that are only good for generating, and cannot be moved or saved."""
        ...


def weight_layout(name: str) -> WeightLayout:
    """Return the layout of that name, or raise an error that lists them."""
    known: tuple[WeightLayout, ...] = get_args(WeightLayout)
    for layout in known:
        if layout == name:
            return layout
    raise ConfigError(f"`weights`: expected {' or '.join(known)}, found {name!r}{nearest(str(name), known)}")


def choose_layout(
    wanted: WeightLayout | None, generator: object, device: torch.device, solver: str
) -> WeightLayout | None:
    """Choose how a generator stores its weights on a device; None leaves them as trained.

    A layout that was asked for and is not available is an error; without one, a CPU gets float32.
    """
    can = isinstance(generator, LaysOutWeights)
    if wanted is None:
        return "fp32" if can and device.type == "cpu" else None
    if not can:
        raise ConfigError(
            f"`weights={wanted}`: a model of the solver {solver} generates with its weights as they were trained; "
            "leave it out"
        )
    if device.type == "cpu":
        return wanted
    if wanted != "fp32":
        raise ConfigError(
            f"`weights={wanted}`: such weights are for generation on a CPU, found the device {device}; "
            "leave it out, or choose the device cpu"
        )
    return None
