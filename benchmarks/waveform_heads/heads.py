"""Heads to compare with that the library does not have: a categorical one around a linear path, and two bytes.

`PathCategoricalHead` has one logit per class, added to the logarithms of what a small mixture gives each class; the
mixture is placed by the same linear path as that of `dml`. `BytesHead` has 256 logits for the upper eight bits of a
class and, once they are known, as many as needed for the lower ones, from a hidden layer that reads the upper byte.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from solfa.models import DmlHead, DmlHeadConfig
from solfa.models.sashimi.heads import draw_classes, mean_nats, no_penalty
from solfa.models.sashimi.linear_path import LinearPath, PastAmplitudes
from solfa.ops.class_grid import Grid
from solfa.ops.temperature import TemperatureSemantics, draw_tempered

PATH_MIXTURES = 3
ORDER = DmlHeadConfig().prediction_order
HIDDEN = 64
COARSE_BITS = 8
_TINY = 1e-12
_START = 0.05


class LogitsPath(LinearPath):
    """A linear path for a mixture whose numbers come after the logits of classes."""

    def place(self, outputs: Tensor, x: Tensor, heard: PastAmplitudes) -> Tensor:
        logits, mixture = outputs[..., : self.grid.num_classes], outputs[..., self.grid.num_classes :]
        return torch.cat([logits, super().place(mixture, x, heard)], dim=-1)


class PathCategoricalHead(nn.Module):
    """A logit per class, around a small mixture."""

    loss, penalty, draw = mean_nats, no_penalty, draw_classes
    num_uniforms = 1

    def __init__(self, grid: Grid) -> None:
        super().__init__()
        self.base = DmlHead(grid.num_classes, PATH_MIXTURES, grid)
        self.num_classes = grid.num_classes
        self.num_parameters = self.num_classes + self.base.num_parameters

    def initialize(self, projection: nn.Linear) -> None:
        """Start with the mixture as it is."""
        base = nn.Linear(projection.in_features, self.base.num_parameters)
        self.base.initialize(base)
        with torch.no_grad():
            nn.init.normal_(projection.weight, std=_START / projection.in_features**0.5)
            nn.init.zeros_(projection.bias)
            projection.weight[self.num_classes :] = base.weight
            projection.bias[self.num_classes :] = base.bias

    def logits(self, outputs: Tensor) -> Tensor:
        base = self.base.pmf(outputs[..., self.num_classes :])
        return outputs[..., : self.num_classes].float() + (base + _TINY).log()

    def log_prob(self, outputs: Tensor, classes: Tensor) -> Tensor:
        return self.logits(outputs).log_softmax(dim=-1).gather(-1, classes[..., None]).squeeze(-1)

    def draw_with(
        self, outputs: Tensor, uniforms: Tensor, temperature: float = 1.0, semantics: TemperatureSemantics = "heuristic"
    ) -> Tensor:
        return draw_tempered(self.logits(outputs), uniforms[..., 0], temperature)

    def pmf(self, outputs: Tensor) -> Tensor:
        return self.logits(outputs).softmax(dim=-1)

    def statistics(self, outputs: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        return {}


class BytesHead(nn.Module):
    """The upper byte of a class, then the rest of it."""

    loss, penalty, draw = mean_nats, no_penalty, draw_classes
    num_uniforms = 2

    def __init__(self, grid: Grid) -> None:
        super().__init__()
        self.num_classes, self.num_coarse = grid.num_classes, 1 << COARSE_BITS
        self.num_fine = grid.num_classes // self.num_coarse
        self.num_parameters = self.num_coarse + HIDDEN
        self.rows = nn.Embedding(self.num_coarse, HIDDEN)
        self.fine = nn.Linear(HIDDEN, self.num_fine)

    def initialize(self, projection: nn.Linear) -> None:
        """Start near equal probabilities."""
        nn.init.normal_(projection.weight, std=_START / projection.in_features**0.5)
        nn.init.normal_(self.fine.weight, std=_START / HIDDEN**0.5)
        nn.init.zeros_(projection.bias)
        nn.init.zeros_(self.fine.bias)

    def log_prob(self, outputs: Tensor, classes: Tensor) -> Tensor:
        coarse, fine = classes // self.num_fine, classes % self.num_fine
        first = outputs[..., : self.num_coarse].log_softmax(dim=-1).gather(-1, coarse[..., None])
        second = self.fine_logits(outputs, coarse).log_softmax(dim=-1).gather(-1, fine[..., None])
        return (first + second).squeeze(-1)

    def fine_logits(self, outputs: Tensor, coarse: Tensor) -> Tensor:
        logits: Tensor = self.fine(gelu(outputs[..., self.num_coarse :] + self.rows(coarse)))
        return logits

    def draw_with(
        self, outputs: Tensor, uniforms: Tensor, temperature: float = 1.0, semantics: TemperatureSemantics = "heuristic"
    ) -> Tensor:
        coarse = draw_tempered(outputs[..., : self.num_coarse], uniforms[..., 0], temperature)
        fine = draw_tempered(self.fine_logits(outputs, coarse), uniforms[..., 1], temperature)
        return coarse * self.num_fine + fine

    def pmf(self, outputs: Tensor) -> Tensor:
        first = outputs[..., : self.num_coarse].softmax(dim=-1)
        coarse = torch.arange(self.num_coarse).expand(*outputs.shape[:-1], -1)
        second = self.fine_logits(outputs[..., None, :], coarse).softmax(dim=-1)
        return (first[..., None] * second).flatten(-2)

    def statistics(self, outputs: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        return {}


@dataclass(frozen=True)
class PathCategoricalHeadConfig:
    """A logit per class around a linear path."""

    kind: str = "categorical-path"

    def build(self, grid: Grid) -> PathCategoricalHead:
        return PathCategoricalHead(grid)

    def linear_path(self, grid: Grid, dim: int) -> LogitsPath:
        return LogitsPath(grid, ORDER, dim)


@dataclass(frozen=True)
class BytesHeadConfig:
    """Two bytes."""

    kind: str = "bytes"

    def build(self, grid: Grid) -> BytesHead:
        return BytesHead(grid)

    def linear_path(self, grid: Grid, dim: int) -> None:
        """Bytes have no means for a linear path to lead to."""
