"""Weighted means of metrics over the steps of a stage and over all processes."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

Metrics = dict[str, Any]
"""Metrics by name: numbers, or tensors with one element."""


class Averages:
    """Sums of metrics and of their weights. Tensors stay on their device until a mean is needed."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._weights: dict[str, float] = {}

    def add(self, metrics: Mapping[str, float | Tensor], weight: float) -> None:
        """Add the metrics of one step; `weight` is how much it counts."""
        for name, value in metrics.items():
            # In float64, so that the mean of many steps does not depend on how they were summed before a restart.
            term = _double(torch.as_tensor(value).detach()) * weight if weight else torch.zeros((), dtype=torch.float64)
            self._sums[name] = self._sums[name] + term if name in self._sums else term
            self._weights[name] = self._weights.get(name, 0.0) + weight

    def means(self) -> dict[str, float]:
        """Average over the steps of this process."""
        return {name: _ratio(float(total), self._weights[name]) for name, total in self._sums.items()}

    def state(self) -> dict[str, list[float]]:
        """Return the sums and weights as plain numbers."""
        return {name: [float(total), self._weights[name]] for name, total in self._sums.items()}

    @classmethod
    def of(cls, states: list[dict[str, list[float]]]) -> "Averages":
        """Combine the sums of several processes, in order."""
        averages = cls()
        for state in states:
            for name, (total, weight) in state.items():
                before = averages._sums.get(name, torch.zeros((), dtype=torch.float64))
                averages._sums[name] = before + total
                averages._weights[name] = averages._weights.get(name, 0.0) + weight
        return averages


def _ratio(total: float, weight: float) -> float:
    return total / weight if weight else 0.0


def _double(value: Tensor) -> Tensor:
    # Apple's GPUs have no float64.
    return (value.cpu() if value.device.type == "mps" else value).double()
