"""The latents of a dataset as a flow model needs them: their channels, their scale, and draws from their posterior."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from solfa.errors import ConfigError

SMALLEST_STD = 1e-4
"""What a variational autoencoder adds to the standard deviation that its network gives."""


class ChannelScale(NamedTuple):
    """Mean and standard deviation of every channel."""

    mean: Float[Tensor, "Z"]
    std: Float[Tensor, "Z"]


def channel_scale(arrays: Any, num_channels: int) -> ChannelScale:
    """Measure the latents of some clips `[T, W]` in one pass, of which the first `num_channels` are means.

    Clip by clip in float64 (Chan et al. 1983), so that the order of summation, and with it the result, is fixed.
    """
    count, mean, squares = 0, np.zeros(num_channels), np.zeros(num_channels)
    for array in arrays:
        frames = np.asarray(array[:, :num_channels], np.float64)
        if not len(frames):
            continue
        own = frames.mean(axis=0)
        total = count + len(frames)
        squares += np.square(frames - own).sum(axis=0) + np.square(own - mean) * count * len(frames) / total
        mean += (own - mean) * len(frames) / total
        count = total
    std = np.sqrt(squares / max(1, count))
    if not np.isfinite(std).all():
        raise ConfigError("dset: some latents are not finite; encode the audio again, or leave these clips out")
    # A channel that never changes has no scale; it is learned as it is.
    std[std == 0] = 1.0
    return ChannelScale(torch.from_numpy(mean), torch.from_numpy(std))


def posterior_draw(latents: Float[Tensor, "B T W"], noise: Float[Tensor, "B T Z"]) -> Float[Tensor, "B T Z"]:
    """Draw latents from mean | scale as a variational autoencoder stores them."""
    mean, scale = latents.chunk(2, dim=-1)
    return mean + (F.softplus(scale) + SMALLEST_STD) * noise


def has_scale(options: Mapping[str, str]) -> bool:
    """Say by a codec's options whether its latents are stored as mean | scale."""
    return options.get("with_scale", "false").lower() == "true"
