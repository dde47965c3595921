"""Teach a mixture to keep its loudness when it hears nothing but itself.

In training a network reads recordings; drawing, it reads its own draws. One that judges the loudness to come by the
last few milliseconds, and is a little wrong about it, is right enough for a likelihood, but its errors add up: within a
second every clip is as loud as every other, whatever it began with, and how loud that is is an accident. So some
updates also let the network continue the beginning of a recording by itself, and compare what it expects there with
what it expects of the recording at the same time:

    recording   |  read  |  read, teacher          spread of a frame = log of the mean variance that the mixture
    own draws   |  read  |  drawn, then read       expects of its samples, halved (a logarithm of amplitude)
                                                   power of a longer frame = the same of variance plus squared mean

    errors of a recording = means over frames of (level in own draws - level in the recording)^2

The spread is about what is drawn, the power about what the predictor makes of it: a pole beyond the unit circle makes
small draws loud. The levels in the recording are taken as given, as are the draws, so gradients only go through what is
read. What the network can keep of the beginning, it learns to keep; on music it helps that it reads how loud that was
(solfa/models/sashimi/opening_levels.py).
"""

import copy
from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Bool, Float, Float32, Int64, Shaped
from torch import Tensor

from solfa.models.sashimi.generation import WaveformSampling, generate_classes
from solfa.models.sashimi.heads import DmlHead
from solfa.models.sashimi.network import Sashimi

FRAME = 64
"""Samples over which expected variances are averaged."""
POWER_FRAME = 1024
"""Samples over which expected powers are averaged: long enough for the waves of low tones."""


class Levels(NamedTuple):
    """Half the logarithms of what a mixture expects of whole frames."""

    spread: Float32[Tensor, "B F"]
    """The mean variance, in frames of `FRAME`."""
    power: Float32[Tensor, "B G"]
    """The mean power, in frames of `POWER_FRAME`; one frame of everything if there is less."""


class LevelErrors(NamedTuple):
    """Mean squares of differences between levels, for each recording."""

    spread: Float32[Tensor, "B"]
    power: Float32[Tensor, "B"]


def continue_freely(
    model: Sashimi, head: DmlHead, classes: Int64[Tensor, "B N"], prompt_samples: int, seeds: Sequence[int]
) -> Int64[Tensor, "B N"]:
    """Replace all but the first samples of each recording by what the network draws, with a seed for each."""
    if model.projection.weight.device.type != "cpu":
        # The compiled kernel on a CPU draws many times faster than a network that is called for every sample.
        model = copy.deepcopy(model).cpu()
    prompt = classes[:, :prompt_samples]
    drawn = generate_classes(model, head, classes.shape[1], WaveformSampling(), seeds, prompt).classes
    # Drawn in inference mode, of which training may keep nothing.
    return drawn.clone().to(classes.device)


def expected_levels(head: DmlHead, outputs: Float[Tensor, "B N P"]) -> Levels:
    """Return the levels of every whole frame."""
    mean, variance = head.expected(outputs)
    frames = _frames(variance, FRAME), _frames(mean.square() + variance, POWER_FRAME)
    return Levels(*(frame.mean(dim=-1).log() / 2 for frame in frames))


def level_errors(
    head: DmlHead, own: Float[Tensor, "B N P"], real: Float[Tensor, "B N P"], mask: Bool[Tensor, "B N"]
) -> LevelErrors:
    """Score how far the levels in own draws are from those in each recording, over frames that the mask keeps whole."""
    found, wanted = expected_levels(head, own), expected_levels(head, real)
    kept = _frames(mask, FRAME).all(dim=-1), _frames(mask, POWER_FRAME).all(dim=-1)
    return LevelErrors(*map(_mean_square, found, wanted, kept))


def _mean_square(
    found: Float32[Tensor, "B F"], wanted: Float32[Tensor, "B F"], kept: Bool[Tensor, "B F"]
) -> Float32[Tensor, "B"]:
    squares = (found - wanted.detach()).square().masked_fill(~kept, 0)
    return squares.sum(dim=1) / kept.sum(dim=1).clamp(min=1)


def _frames(values: Shaped[Tensor, "B N"], size: int) -> Shaped[Tensor, "B F n"]:
    """Cut what belongs to samples into whole frames; what is left over at the end is left out."""
    size = min(size, values.shape[1])
    num_frames = values.shape[1] // size
    return values[:, : num_frames * size].reshape(len(values), num_frames, size)
