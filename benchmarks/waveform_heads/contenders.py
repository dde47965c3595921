"""What is compared: one backbone under two heads, on four grids.

The 8-bit models are `Sashimi` as it is: an embedding with a row for each class. A row for each of 65,536 classes would
be two million numbers at width 32, most of them hardly ever read, beside a backbone of a third of a million. So models
of finer grids read the embedding of the 8-bit mu-law cell that the sample is in, plus one learned direction times the
place of the sample within that cell, from -1 to 1: nothing of the finer sample is hidden, and it costs one vector. To
see what that choice does, a contender may also read the sample itself, times another learned direction.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from solfa.models import CategoricalHeadConfig, DmlHeadConfig, OutputHead, Sashimi, SashimiConfig, previous_classes
from solfa.models.sashimi.heads import HeadConfig
from solfa.ops import LinearGrid, MulawGrid
from solfa.ops.class_grid import Grid

COARSE = MulawGrid(bits=8)
"""Whose cells the models of finer grids have an embedding of."""


@dataclass(frozen=True)
class Contender:
    """A grid, and the head that predicts its classes."""

    grid: Grid
    head: HeadConfig
    reads_cells: bool = False
    """Read cells and the place within them instead of an embedding of every class."""
    reads_amplitude: bool = False
    """Read the position of the class on the line, too."""

    @property
    def name(self) -> str:
        reading = ("-cells" if self.reads_cells else "") + ("-amplitude" if self.reads_amplitude else "")
        return f"{self.head.kind}-{self.grid.kind}{self.grid.bits}{reading}"

    @property
    def title(self) -> str:
        head = "categorical" if isinstance(self.head, CategoricalHeadConfig) else "DML"
        kind = "mu-law" if isinstance(self.grid, MulawGrid) else "linear"
        rows = ", a row per class" if self.grid.bits > COARSE.bits and not self.reads_cells else ""
        amplitude = ", amplitude read" if self.reads_amplitude else ""
        return f"{head}, {self.grid.bits}-bit {kind}{rows}{amplitude}"


MULAW8, LINEAR8, LINEAR12, LINEAR16 = MulawGrid(bits=8), LinearGrid(bits=8), LinearGrid(bits=12), LinearGrid(bits=16)
CONTENDERS = (
    Contender(MULAW8, CategoricalHeadConfig()),
    Contender(MULAW8, DmlHeadConfig()),
    Contender(LINEAR8, CategoricalHeadConfig()),
    Contender(LINEAR8, DmlHeadConfig()),
    Contender(LINEAR12, DmlHeadConfig(), reads_cells=True),
    Contender(LINEAR16, DmlHeadConfig(), reads_cells=True),
)
OTHER_INPUTS = (
    Contender(LINEAR16, DmlHeadConfig(), reads_cells=True, reads_amplitude=True),
    Contender(MULAW8, DmlHeadConfig(), reads_amplitude=True),
    Contender(MULAW8, CategoricalHeadConfig(), reads_amplitude=True),
    # What the library builds of a 16-bit dataset: a row of the embedding for each class.
    Contender(LINEAR16, DmlHeadConfig()),
)
"""Run only when asked for by name."""


class CellEmbedding(nn.Module):
    """Read classes of a fine grid as their coarse cells and the place within."""

    cells: Tensor
    places: Tensor

    def __init__(self, rows: nn.Embedding, grid: Grid, coarse: Grid) -> None:
        super().__init__()
        assert rows.num_embeddings == coarse.num_classes + 1, "one row more than cells, for what comes before the first"
        self.rows, self.direction = rows, nn.Parameter(torch.zeros(rows.embedding_dim))
        nn.init.normal_(self.direction)
        audio = grid.to_audio(torch.arange(grid.num_classes))
        cells = coarse.to_classes(audio)
        middles = 2 * cells.double() / (coarse.num_classes - 1) - 1
        places = (coarse.positions(audio) - middles) * (coarse.num_classes - 1)
        self.register_buffer("cells", torch.cat([cells, torch.tensor([coarse.num_classes])]))
        self.register_buffer("places", torch.cat([places.float(), torch.zeros(1)]))

    def forward(self, classes: Tensor) -> Tensor:
        read: Tensor = self.rows(self.cells[classes]) + self.places[classes][..., None] * self.direction
        return read


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
        self.head: OutputHead = contender.head.build(self.grid.num_classes)
        torch.manual_seed(seed)
        # The layers come out equal for every contender: they are drawn after as many rows.
        config = backbone.model_copy(update={"num_classes": COARSE.num_classes})
        self.network = Sashimi(config, self.head.num_parameters)
        self.head.initialize(self.network.projection)
        if contender.reads_cells:
            self.network.embedding = CellEmbedding(self.network.embedding, self.grid, COARSE)  # type: ignore[assignment]
        elif self.grid.num_classes > COARSE.num_classes:
            self.network.embedding = nn.Embedding(self.grid.num_classes + 1, backbone.dim)
        if contender.reads_amplitude:
            self.network.embedding = AmplitudeEmbedding(  # type: ignore[assignment]
                self.network.embedding, self.grid, backbone.dim
            )

    def forward(self, classes: Tensor) -> Tensor:
        """Give the parameters of the distribution of each class, having read those before it."""
        first = torch.full((len(classes),), self.grid.num_classes)
        outputs: Tensor = self.network(previous_classes(classes, first))
        return outputs

    def parameter_counts(self) -> dict[str, int]:
        parts = {"input": self.network.embedding, "output": self.network.projection, "all": self.network}
        counts = {name: sum(parameter.numel() for parameter in part.parameters()) for name, part in parts.items()}
        return counts | {"backbone": counts["all"] - counts["input"] - counts["output"]}
