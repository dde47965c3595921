"""Which times a flow model is trained at, as quantiles: from even fractions between 0 and 1 to times."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from solfa.models.flow.config import LogitNormalTimes, LogSnrTimes, TimeDraw
from solfa.ops.noise_paths import Objective, normal_quantile, shifted


def training_times(
    fractions: Float[Tensor, "B"], draw: TimeDraw, objective: Objective, shift: float | Float[Tensor, "B"]
) -> Float[Tensor, "B"]:
    """Turn uniform numbers into times with the distribution that a config asks for, shifted for all or for each."""
    return shifted(_times(fractions, draw, objective), shift)


def _times(fractions: Float[Tensor, "B"], draw: TimeDraw, objective: Objective) -> Float[Tensor, "B"]:
    if isinstance(draw, LogitNormalTimes):
        # The ends would be infinite.
        inside = fractions.clamp(2**-20, 1 - 2**-20)
        return torch.sigmoid(draw.mean + draw.std * normal_quantile(inside))
    if isinstance(draw, LogSnrTimes):
        # b / a, noise by data; its logarithm is minus half that of the ratio of powers.
        log_ratio = -(draw.max + (draw.min - draw.max) * fractions) / 2
        if objective == "rectified_flow":
            return torch.sigmoid(log_ratio)
        return torch.atan(log_ratio.exp()) * (2 / math.pi)
    return fractions
