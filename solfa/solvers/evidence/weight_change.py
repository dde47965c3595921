"""How far the weights of each layer moved: the norm of the change beside the norm of what was there."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

_LAYER = re.compile(r"^(.*?\.\d+)(?=\.|$)")


class Moved(NamedTuple):
    """A weight before and after."""

    name: str
    before: Tensor
    after: Tensor


class LayerChange(NamedTuple):
    """How far the weights of a layer moved."""

    layer: str
    change: float
    """The norm of the difference of all its weights."""
    norm: float
    """The norm of the weights before."""

    @property
    def share(self) -> float:
        """The change as a share of the norm before; infinite where there was nothing."""
        return self.change / self.norm if self.norm else math.inf if self.change else 0.0


def layer_of(name: str) -> str:
    """Return the layer that a weight belongs to: up to the first number in its name, or else its module."""
    found = _LAYER.match(name)
    return found[1] if found else name.rpartition(".")[0] or name


def change_per_layer(weights: Iterable[Moved]) -> list[LayerChange]:
    """Sum up the changes of weights layer by layer, in the order they come."""
    squares: dict[str, list[float]] = {}
    for name, before, after in weights:
        sums = squares.setdefault(layer_of(name), [0.0, 0.0])
        sums[0] += float((after.double() - before.double()).square().sum())
        sums[1] += float(before.double().square().sum())
    return [LayerChange(layer, change**0.5, norm**0.5) for layer, (change, norm) in squares.items()]


def moved_weights(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[Moved]:
    """Pair the weights of two states of one network."""
    for name, value in before.items():
        if isinstance(value, Tensor) and value.is_floating_point():
            yield Moved(name, value.cpu(), after[name].cpu())
