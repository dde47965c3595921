"""Linear prediction: the next amplitude as a weighted sum of the last K, fitted to recordings by least squares.

With p the K amplitudes before x, the latest first, and averages over all of them:

    G = E[p p'] + e I        a = G^-1 E[p x]        W G W' = I, W lower triangular

W p are K numbers without correlation and with a variance of one, however loud the recordings are and however alike
neighbouring amplitudes: row k is what the amplitude before k others adds to them (a normalised backward prediction).
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from solfa.errors import ConfigError

_RIDGE = 1e-9
"""What G's diagonal is increased by, as a share of its trace."""
LEVEL_WINDOW = 64
"""Samples over which the size of the residual is averaged to find how much it varies."""
_QUANTILES = (0.05, 0.95)


class LinearPrediction(NamedTuple):
    """What was fitted, rounded to float32 so that it is the same wherever it is stored."""

    coefficients: Float[Tensor, "K"]
    """a, for the latest amplitude first."""
    whitening: Float[Tensor, "K K"]
    """W."""
    error: Float[Tensor, ""]
    """The mean absolute residual, E|x - a p|."""
    log_levels: Float[Tensor, "L"]
    """Logarithms of local mean absolute residuals, from quiet to loud: quantiles at equal distances."""


def fit_prediction(
    recordings: Iterable[Float[Tensor, "_"]], order: int, num_levels: int, smallest: float
) -> LinearPrediction:
    """Fit to some recordings; amplitudes are known to `smallest`, which bounds residuals from below.

    >>> import torch
    >>> from solfa.ops.linear_prediction import fit_prediction
    >>> tone = torch.sin(torch.arange(1000) / 5)
    >>> fit_prediction([tone], order=2, num_levels=1, smallest=1e-9).coefficients  # 2 cos(1/5), -1
    tensor([ 1.9601, -1.0000])
    """
    windows = [
        recording.double().unfold(0, order + 1, 1).flip(-1) for recording in recordings if len(recording) > order
    ]
    if not windows:
        raise ConfigError(
            f"model.prediction_order: expected a training clip of more than {order} samples, found none; give longer "
            "clips, or set model.prediction_order=0"
        )
    count = sum(len(window) for window in windows)
    moments = sum((window.T @ window for window in windows), torch.zeros(order + 1, order + 1).double()) / count
    gram, aims = moments[1:, 1:], moments[1:, 0]
    gram = gram + (_RIDGE * gram.trace() + smallest**2) * torch.eye(order, dtype=torch.float64)
    lower = torch.linalg.cholesky(gram)
    coefficients = torch.cholesky_solve(aims[:, None], lower)[:, 0].float()
    whitening = torch.linalg.solve_triangular(lower, torch.eye(order, dtype=torch.float64), upper=False)
    residuals = [(window[:, 0] - window[:, 1:] @ coefficients.double()).abs() for window in windows]
    error = sum((residual.sum() for residual in residuals), torch.zeros(()).double()) / count
    levels = torch.cat([_local_means(residual) for residual in residuals]).clamp(min=smallest).log()
    shares = torch.linspace(*_QUANTILES, num_levels, dtype=torch.float64) if num_levels > 1 else torch.full((1,), 0.5)
    return LinearPrediction(
        coefficients,
        whitening.float(),
        error.clamp(min=smallest).float(),
        _quantiles(levels, shares).float(),
    )


def _local_means(residual: Float64[Tensor, "n"]) -> Float64[Tensor, "m"]:
    """Average over windows; what is left over at the end of a longer recording is left out."""
    size = min(LEVEL_WINDOW, len(residual))
    return residual[: len(residual) // size * size].view(-1, size).mean(dim=1)


def _quantiles(values: Float64[Tensor, "m"], shares: Float[Tensor, "L"]) -> Float64[Tensor, "L"]:
    """Take the nearest ranks; torch.quantile refuses more than 16 million values."""
    ranks = (shares.double() * (len(values) - 1)).round().long()
    return values.sort().values[ranks]
