"""What is compared: one backbone under several heads, on four grids.

The 8-bit models are `Sashimi` as it is: an embedding with a row for each class. A row for each of 65,536 classes would
be two million numbers at width 32, most of them hardly ever read, beside a backbone of a third of a million. So models
of finer grids read the embedding of the 8-bit mu-law cell that the sample is in, plus one learned direction times the
place of the sample within that cell, from -1 to 1: nothing of the finer sample is hidden, and it costs one vector. That
is what the library does, too, where a linear path leads past the embedding (`prediction_order`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from solfa.models import (
    CategoricalHeadConfig,
    DmlHead,
    DmlHeadConfig,
    OutputHead,
    Sashimi,
    SashimiConfig,
    previous_classes,
)
from solfa.models.sashimi.linear_path import COARSE, CellEmbedding
from solfa.ops import LinearGrid, MulawGrid
from solfa.ops.class_grid import Grid

from .heads import BytesHeadConfig, PathCategoricalHead, PathCategoricalHeadConfig
from .paths import BoundedDmlHeadConfig, StableDmlHeadConfig

HeadConfig = (
    CategoricalHeadConfig
    | DmlHeadConfig
    | BytesHeadConfig
    | PathCategoricalHeadConfig
    | StableDmlHeadConfig
    | BoundedDmlHeadConfig
)
TITLES = {
    "categorical": "categorical",
    "categorical-path": "categorical, linear path",
    "dml": "mixture",
    "dml-path": "mixture, linear path",
    "dml-opening": "mixture, linear path, opening",
    "dml-stable": "mixture, stable path",
    "dml-bounded": "mixture, bounded path",
    "bytes": "coarse, then fine byte",
}


@dataclass(frozen=True)
class Contender:
    """A grid, and the head that predicts its classes."""

    grid: Grid
    head: HeadConfig
    reads_amplitude: bool = False
    """Read the position of the class on the line, too."""

    @property
    def kind(self) -> str:
        if not isinstance(self.head, DmlHeadConfig) or not self.head.prediction_order:
            return self.head.kind
        return self.head.kind + ("-opening" if self.head.opening_samples else "-path")

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.grid.kind}{self.grid.bits}{'-amplitude' if self.reads_amplitude else ''}"

    @property
    def title(self) -> str:
        kind = "mu-law" if isinstance(self.grid, MulawGrid) else "linear"
        amplitude = ", amplitude read" if self.reads_amplitude else ""
        return f"{TITLES[self.kind]}, {self.grid.bits}-bit {kind}{amplitude}"


MULAW8, LINEAR8, LINEAR12, LINEAR16 = MulawGrid(bits=8), LinearGrid(bits=8), LinearGrid(bits=12), LinearGrid(bits=16)
CONTENDERS = (
    *(Contender(grid, CategoricalHeadConfig()) for grid in (MULAW8, LINEAR8)),
    *(Contender(grid, PathCategoricalHeadConfig()) for grid in (MULAW8, LINEAR8)),
    *(Contender(grid, DmlHeadConfig()) for grid in (MULAW8, LINEAR8, LINEAR12, LINEAR16)),
    *(Contender(grid, BytesHeadConfig()) for grid in (LINEAR12, LINEAR16)),
    *(Contender(grid, DmlHeadConfig(prediction_order=0)) for grid in (MULAW8, LINEAR8, LINEAR12, LINEAR16)),
)
OTHER_INPUTS = (
    *(Contender(grid, DmlHeadConfig(opening_samples=4096)) for grid in (MULAW8, LINEAR16)),
    Contender(LINEAR16, StableDmlHeadConfig()),
    Contender(LINEAR16, BoundedDmlHeadConfig()),
    Contender(LINEAR16, DmlHeadConfig(prediction_order=0), reads_amplitude=True),
    Contender(MULAW8, DmlHeadConfig(prediction_order=0), reads_amplitude=True),
    Contender(MULAW8, CategoricalHeadConfig(), reads_amplitude=True),
)
"""Run only when asked for by name."""


class AmplitudeEmbedding(nn.Module):
    """Read where classes are on the line, from -1 to 1, beside what is read of them already."""

    positions: Tensor

    def __init__(self, inner: nn.Module, grid: Grid, dim: int) -> None:
        super().__init__()
        self.inner, self.direction = inner, nn.Parameter(torch.randn(dim))
        positions = 2 * torch.arange(grid.num_classes + 1) / (grid.num_classes - 1) - 1
        positions[-1] = 0
        self.register_buffer("positions", positions)

    def forward(self, classes: Tensor) -> Tensor:
        read: Tensor = self.inner(classes) + self.positions[classes][..., None] * self.direction
        return read


class WaveformModel(nn.Module):
    """A backbone, what it reads, and its head."""

    def __init__(self, contender: Contender, backbone: SashimiConfig, seed: int) -> None:
        super().__init__()
        self.grid: Grid = contender.grid
        torch.manual_seed(seed)
        # The layers come out equal for every contender: they are drawn first, and after as many rows.
        config = backbone.model_copy(update={"num_classes": COARSE.num_classes})
        self.head: OutputHead = contender.head.build(self.grid)
        torch.manual_seed(seed)
        self.network = Sashimi(config, self.head.num_parameters)
        self.network.num_classes = self.grid.num_classes
        self.head.initialize(self.network.projection)
        self.network.linear_path = contender.head.linear_path(self.grid, backbone.dim)
        if self.grid.num_classes > COARSE.num_classes:
            self.network.embedding = CellEmbedding(self.grid, backbone.dim)
        if contender.reads_amplitude:
            self.network.embedding = AmplitudeEmbedding(self.network.embedding, self.grid, backbone.dim)

    def fit(self, recordings: Sequence[Tensor]) -> None:
        """Fit what is fitted to the training data before any update: the linear path, where there is one."""
        if self.network.linear_path is not None:
            rounded = [self.grid.to_audio(self.grid.to_classes(audio)) for audio in recordings]
            mixture = self.head.base if isinstance(self.head, PathCategoricalHead) else self.head
            assert isinstance(mixture, DmlHead)
            self.network.linear_path.fit(rounded, self.network.projection, mixture.num_mixtures)

    def forward(self, classes: Tensor) -> Tensor:
        """Give the parameters of the distribution of each class, having read those before it."""
        first = torch.full((len(classes),), self.grid.num_classes)
        outputs: Tensor = self.network(previous_classes(classes, first))
        return outputs

    def parameter_counts(self) -> dict[str, int]:
        """Count what reads, what predicts, and everything; a linear path does both."""
        network = self.network
        path = list(() if network.linear_path is None else network.linear_path.residuals.parameters())
        parts = {
            "input": [*network.embedding.parameters(), *path],
            "backbone": [*network.tier.parameters(), *network.norm.parameters()],
            "all": list(self.parameters()),
        }
        counts = {name: sum(parameter.numel() for parameter in part) for name, part in parts.items()}
        return counts | {"output": counts["all"] - counts["input"] - counts["backbone"]}
