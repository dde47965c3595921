"""A linear path from the last amplitudes to the means of a mixture, beside a network that knows amplitudes by class.

A network reads the embeddings of classes through norms and nonlinearities, so it takes long to learn what a linear
predictor knows from the start: that the next amplitude is almost a weighted sum of the last ones. With p the last K
amplitudes, a, W and sigma fitted to the training data once (solfa/ops/linear_prediction.py), and o, l, d the network's:

    centre = a p + sigma d W p        means = centre + exp(l) o        log-scales = l        logits as they are

d is zero at first. The network also reads how wrong the fixed prediction a p was: an embedding of the cell of an 8-bit
mu-law grid that the residual is in, eight times enlarged. Its rows are not drawn one by one: at first, they mostly say
where the cell is, and how far from the middle, which is about the logarithm of the residual's size. So a network that
averages what it reads knows how wide to make its mixture, before it has seen every cell. Which cell a residual is in
must not depend on who computes it, so the coefficients are float32, as amplitudes are: their products are exact in
float64, and the sum has one order.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from solfa.models.sashimi.opening_levels import Opening
from solfa.ops.class_grid import Grid, MulawGrid
from solfa.ops.linear_prediction import fit_prediction

COARSE = MulawGrid(bits=8)
"""The cells that finer amplitudes and residuals are read as."""
_ENLARGED = 8.0
"""How much larger residuals are than amplitudes, when they are read on the same cells."""
_ROW_NOISE = 0.3
"""The initial spread of what only one cell's row says, where its place and its distance from the middle each have 1."""
LARGEST_LOG_SCALE = 0.0
"""A component as wide as the line knows nothing; wider ones only make clicks."""


class PastAmplitudes(NamedTuple):
    """What the linear path knows about some inputs."""

    windows: Float[Tensor, "B N K"]
    """The last K amplitudes at each input, its own first."""
    predictions: Float64[Tensor, "B N"]
    """The amplitude after each, as the fixed predictor sees it."""
    embedded: Float[Tensor, "B N D"]
    """How wrong the prediction of each was, embedded; and how loud the clip began, if that is read."""
    opening: Int64[Tensor, "B 3"]
    """What was heard of the beginning of each clip."""


class LinearPath(nn.Module):
    """Predicts amplitudes linearly, corrected by the network at every step."""

    amplitudes: Tensor
    borders: Tensor
    coefficients: Tensor
    whitening: Tensor
    error: Tensor

    def __init__(self, grid: Grid, order: int, dim: int, opening_samples: int = 0) -> None:
        super().__init__()
        self.grid, self.order, self.dim = grid, order, dim
        with torch.device("cpu"):  # even where only the outline of a network is built
            amplitudes = torch.cat([grid.to_audio(torch.arange(grid.num_classes)), torch.zeros(1)])
            borders = COARSE.borders() / _ENLARGED
        self.register_buffer("amplitudes", amplitudes, persistent=False)
        self.register_buffer("borders", borders, persistent=False)
        self.register_buffer("coefficients", torch.zeros(order))
        self.register_buffer("whitening", torch.eye(order))
        self.register_buffer("error", torch.ones(()))
        self.residuals = nn.Embedding(COARSE.num_classes + 1, dim)
        _order_rows(self.residuals)
        self.turns = nn.Linear(dim, order)
        nn.init.zeros_(self.turns.weight)
        nn.init.zeros_(self.turns.bias)
        self.opening = Opening(opening_samples, dim) if opening_samples else None

    def class_embedding(self) -> nn.Module:
        """Build what reads classes: a row for each, or for each coarse cell if there are more classes than cells."""
        if self.grid.num_classes > COARSE.num_classes:
            return CellEmbedding(self.grid, self.dim)
        return nn.Embedding(self.grid.num_classes + 1, self.dim)

    @torch.no_grad()
    def fit(self, recordings: Iterable[Float[Tensor, "_"]], projection: nn.Linear, num_mixtures: int) -> None:
        """Fit the predictor to amplitudes of the training data, and start from scales as wide as its residuals are.

        What is fitted is stored with the weights, and not trained. `projection` is the network's last layer, whose last
        outputs are the log-scales.
        """
        smallest = float(self.grid.borders().diff().min()) / 2
        fitted = fit_prediction(recordings, self.order, num_mixtures, smallest)
        self.coefficients.copy_(fitted.coefficients)
        self.whitening.copy_(fitted.whitening)
        self.error.copy_(fitted.error)
        projection.bias[-num_mixtures:] = fitted.log_levels

    def read(
        self, inputs: Int64[Tensor, "B N"], past: Float[Tensor, "B K"], opening: Int64[Tensor, "B 3"]
    ) -> PastAmplitudes:
        """Read classes after the K amplitudes before them, the latest first, and what was heard of the beginning."""
        known = torch.cat([past.flip(1), self.amplitudes[inputs]], dim=1)
        windows = known.unfold(1, self.order, 1).flip(-1)
        predictions = self.predict(windows)
        residuals = self.amplitudes[inputs].double() - predictions[:, :-1]
        cells = torch.bucketize(residuals, self.borders, right=True)
        # Nothing was predicted before the first amplitude of a clip.
        is_start = inputs == self.grid.num_classes
        cells = cells.masked_fill(is_start, COARSE.num_classes)
        embedded = self.residuals(cells)
        if self.opening is not None:
            amplitudes = self.amplitudes[inputs].double()
            levels, opening = self.opening.read(amplitudes, residuals, ~is_start, opening)
            embedded = embedded + levels
        return PastAmplitudes(windows[:, 1:], predictions[:, 1:], embedded, opening)

    def predict(self, windows: Float[Tensor, "B N K"]) -> Float64[Tensor, "B N"]:
        """Return a p: every product is exact, and they are added in their order."""
        predictions = torch.zeros(windows.shape[:-1], dtype=torch.float64, device=windows.device)
        for amplitudes, coefficient in zip(windows.double().unbind(-1), self.coefficients.double(), strict=True):
            predictions = predictions + amplitudes * coefficient
        return predictions

    def place(
        self, outputs: Float[Tensor, "B N P"], x: Float[Tensor, "B N D"], heard: PastAmplitudes
    ) -> Float[Tensor, "B N P"]:
        """Turn logits, offsets and log-scales into logits, means and log-scales; `x` is what gave them."""
        logits, offsets, log_scales = outputs.chunk(3, dim=-1)
        log_scales = log_scales.clamp(max=LARGEST_LOG_SCALE)
        return torch.cat([logits, self.centre(x, heard)[..., None] + log_scales.exp() * offsets, log_scales], dim=-1)

    def centre(self, x: Float[Tensor, "B N D"], heard: PastAmplitudes) -> Float[Tensor, "B N"]:
        turned: Tensor = (self.turns(x) * (heard.windows @ self.whitening.T)).sum(dim=-1)
        return (heard.predictions.to(x.dtype) + self.error * turned).clamp(-1, 1)

    def silence(self, batch_size: int) -> Float[Tensor, "B K"]:
        """Return the amplitudes before the first class."""
        return self.coefficients.new_zeros(batch_size, self.order)


@torch.no_grad()
def _order_rows(embedding: nn.Embedding) -> None:
    """Make the rows of cells functions of their place and of their distance from the middle; the last is no cell's."""
    places = torch.linspace(-1, 1, embedding.num_embeddings - 1)
    features = torch.stack([places, places.abs()], dim=1)
    features = (features - features.mean(dim=0)) / features.std(dim=0)
    embedding.weight[:-1] *= _ROW_NOISE
    embedding.weight[:-1] += features @ torch.randn(2, embedding.embedding_dim)


class CellEmbedding(nn.Module):
    """Read classes of a fine grid as their 8-bit mu-law cells, plus a direction times the place within the cell.

    A row for each of 65,536 classes would be millions of numbers, most of them hardly ever read.
    """

    cells: Tensor
    places: Tensor

    def __init__(self, grid: Grid, dim: int) -> None:
        super().__init__()
        self.rows = nn.Embedding(COARSE.num_classes + 1, dim)
        self.direction = nn.Parameter(torch.randn(dim))
        with torch.device("cpu"):
            audio = grid.to_audio(torch.arange(grid.num_classes))
            cells = COARSE.to_classes(audio)
            middles = 2 * cells.double() / (COARSE.num_classes - 1) - 1
            places = (COARSE.positions(audio) - middles) * (COARSE.num_classes - 1)
            cells = torch.cat([cells, torch.tensor([COARSE.num_classes])])
            places = torch.cat([places.float(), torch.zeros(1)])
        self.register_buffer("cells", cells, persistent=False)
        self.register_buffer("places", places, persistent=False)

    def forward(self, classes: Int64[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
        read: Tensor = self.rows(self.cells[classes]) + self.places[classes][..., None] * self.direction
        return read
