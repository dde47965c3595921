"""Losses that are known without training: what a blind guess costs, and what nobody can do better than."""

import math
from typing import NamedTuple

import torch

from solfa.models.flow.config import FlowModelConfig
from solfa.models.flow.times import training_times
from solfa.ops.noise_paths import coefficients


class ExpectedLoss(NamedTuple):
    """A loss, and whose it is."""

    value: float
    whose: str


def uniform_guess(codebook_size: int) -> ExpectedLoss:
    """Guess all codes alike."""
    return ExpectedLoss(math.log(codebook_size), f"guessing all {codebook_size:,} codes alike: log {codebook_size:,}")


def flow_bars(model: FlowModelConfig, shift: float, num_times: int = 10_000) -> list[ExpectedLoss]:
    """Bound the loss of latents with mean 0 and standard deviation 1, at the times of a flow model, shifted.

    Predicting zero costs the mean square of the target. If the latents were independent normal numbers, nobody could
    do better than the variance of the target given x_t = a x + b e, which is 1 / (a^2 + b^2); real ones are not.
    """
    fractions = (torch.arange(num_times, dtype=torch.float64) + 0.5) / num_times
    data, noise = coefficients(training_times(fractions, model.times, model.objective, shift), model.objective)
    zero = 2.0 if model.objective == "rectified_flow" else float((data**2 + noise**2).mean())
    least = float((1 / (data**2 + noise**2)).mean())
    return [
        ExpectedLoss(zero, "predicting zero, if every channel has mean 0 and standard deviation 1"),
        ExpectedLoss(least, "the least for latents without any structure; a model that learned some is below"),
    ]
