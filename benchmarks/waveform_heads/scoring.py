"""Bits per sample of what a model says: on its own grid, and on cells that all have in common.

A mixture of logistics is a density on a line, so it says what any interval holds: the cells of another grid, too, be
they coarser or finer than its own. The targets are always the original samples, rounded to the grid that is scored.
A head that knows classes says nothing about where in a cell a sample is, and is scored on its own grid alone.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from solfa.models import DmlHead, LogisticMixture, OutputHead
from solfa.ops import LinearGrid, MulawGrid, cells_on
from solfa.ops.class_grid import Grid
from solfa.ops.logistic_mixture import interval_log_prob

from .contenders import WaveformModel

COMMON: Mapping[str, Grid] = {"mulaw8": MulawGrid(bits=8), "linear8": LinearGrid(bits=8)}
"""The cells on which contenders are compared."""
OWN = "own"
LINE = LinearGrid(bits=16)
"""The line of amplitudes: any linear grid has it."""
AT_ONCE = 8
"""Excerpts; more only take more memory."""


def cell_nats(mixture: LogisticMixture, line: Grid, cells: Grid, targets: Tensor) -> Tensor:
    """Give the nats of the cells `targets` of one grid under a mixture on the line of another, in float64."""
    lower, upper = cells_on(line, cells)
    logits, means, log_scales = (part.double() for part in mixture)
    return -interval_log_prob(logits, means, log_scales, lower[targets], upper[targets])


def nats_on(head: OutputHead, grid: Grid, outputs: Tensor, cells: Grid, audio: Tensor) -> Tensor | None:
    """Give the nats of each sample on `cells`; None where the head cannot say."""
    targets = cells.to_classes(audio)
    if isinstance(head, DmlHead):
        line: Grid = LINE if head.is_centred else grid
        return cell_nats(head.mixture(outputs), line, cells, targets)
    return -head.log_prob(outputs, targets).double() if cells == grid else None


@torch.no_grad()
def score(model: WaveformModel, audio: Tensor) -> dict[str, list[float]]:
    """Give bits per sample of each excerpt, on the model's own grid and on the common cells."""
    bits: dict[str, list[float]] = {}
    for part in torch.split(audio, AT_ONCE):
        outputs = model(model.grid.to_classes(part))
        own = -model.head.log_prob(outputs, model.grid.to_classes(part)).double()
        found: dict[str, Tensor | None] = {OWN: own}
        found |= {name: nats_on(model.head, model.grid, outputs, cells, part) for name, cells in COMMON.items()}
        for name, nats in found.items():
            if nats is not None:
                bits.setdefault(name, []).extend((nats.mean(dim=1) / math.log(2)).tolist())
    return bits


def averages(bits: Mapping[str, list[float]]) -> dict[str, float]:
    """Average over excerpts, which are of one length."""
    return {name: sum(values) / len(values) for name, values in bits.items()}
