"""How loud a clip began: the one thing a network reads about loudness that its own draws cannot change.

A network that draws judges by what it drew last how loud to go on, so its errors add up and it forgets how loud the
clip once was. So it also reads, with every sample, two levels of the first P samples: that of the amplitudes, and that
of the residuals of the fixed prediction, each as the embedding of a cell of two decibels; of those read so far in the
beginning, of all P ever after.

    sample     0   1   2   ...   P-1   P   P+1   ...
    level of   0   0-1 0-2 ...   0 to P-1, for the rest of the clip

Rows start as one direction times the decibels of their cell. Amplitudes and residuals are rounded to integers, of which
sums of squares are exact in any order, so a cell does not depend on who computes it, or in how many pieces.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

UNIT = 1 << 18
"""What amplitude 1 is rounded to, which is also the largest: with 2^17 samples, sums of squares are below 2^53."""
DECIBELS = range(-96, 0, 2)
"""Between the cells."""


class OpeningLevels(NamedTuple):
    """What was read about the beginning of some clips."""

    embedded: Float[Tensor, "B N D"]
    """The levels at each input."""
    heard: Int64[Tensor, "B 3"]
    """The energies of the amplitudes and of the residuals so far, and their number, which stop with the first P."""


class Opening(nn.Module):
    """Reads the levels of the first samples of a clip."""

    borders: Tensor

    def __init__(self, num_samples: int, dim: int) -> None:
        super().__init__()
        self.num_samples = num_samples
        with torch.device("cpu"):  # even where only the outline of a network is built
            borders = torch.tensor([UNIT**2 * 10 ** (decibels / 10) for decibels in DECIBELS], dtype=torch.float64)
        self.register_buffer("borders", borders, persistent=False)
        # One cell more than borders, and a row for clips of which nothing was heard yet.
        self.amplitudes, self.residuals = (nn.Embedding(len(DECIBELS) + 2, dim) for _ in range(2))
        for rows in (self.amplitudes, self.residuals):
            _order_rows(rows)

    def read(
        self,
        amplitudes: Float64[Tensor, "B N"],
        residuals: Float64[Tensor, "B N"],
        is_sample: Bool[Tensor, "B N"],
        heard: Int64[Tensor, "B 3"],
    ) -> OpeningLevels:
        """Read samples after what was heard before them; what is no sample is the start of a clip."""
        counts = heard[:, 2:] + is_sample.cumsum(dim=1)
        is_heard = is_sample & (counts <= self.num_samples)
        counts = counts.clamp(max=self.num_samples)
        loudness = heard[:, :1] + (energy_of(amplitudes) * is_heard).cumsum(dim=1)
        roughness = heard[:, 1:2] + (energy_of(residuals) * is_heard).cumsum(dim=1)
        embedded = self.amplitudes(self._cells(loudness, counts)) + self.residuals(self._cells(roughness, counts))
        return OpeningLevels(embedded, torch.stack([loudness[:, -1], roughness[:, -1], counts[:, -1]], dim=1))

    def _cells(self, energies: Int64[Tensor, "B N"], counts: Int64[Tensor, "B N"]) -> Int64[Tensor, "B N"]:
        cells = torch.bucketize(energies.double() / counts.clamp(min=1), self.borders, right=True)
        return cells.masked_fill(counts == 0, len(self.borders) + 1)


@torch.no_grad()
def _order_rows(embedding: nn.Embedding) -> None:
    """Make the rows of cells one direction times their place; the last is no cell's."""
    places = torch.linspace(-1, 1, embedding.num_embeddings - 1)[:, None]
    embedding.weight[:-1] = places / places.std() * torch.randn(embedding.embedding_dim)


def energy_of(values: Float64[Tensor, "B N"]) -> Int64[Tensor, "B N"]:
    """Square values as integers."""
    return (values.clamp(-1, 1) * UNIT).round().long().square()
