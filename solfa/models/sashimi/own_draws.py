"""Teach a mixture to keep its loudness when it hears nothing but itself.

In training a network reads recordings; drawing, it reads its own draws. One that judges the loudness to come by the
last few milliseconds, and is a little wrong about it, is right enough for a likelihood, but its errors add up: within a
second every clip is as loud as every other, whatever it began with, and how loud that is is an accident. So some
updates also let the network continue the beginning of a recording by itself, and compare what it expects there with
what it expects of the recording at the same time:

    recording   |  read  |  read, teacher          level of a frame = log of the mean variance that the mixture
    own draws   |  read  |  drawn, then read       expects of its samples, halved (a logarithm of amplitude)

    penalty of a recording = mean over frames of (level in own draws - level in the recording)^2

The level in the recording is taken as given, as are the draws, so gradients only go through what is read. What the
network can keep of the beginning, it learns to keep.
"""

import copy
from collections.abc import Sequence

from jaxtyping import Bool, Float, Float32, Int64, Shaped
from torch import Tensor

from solfa.models.sashimi.generation import WaveformSampling, generate_classes
from solfa.models.sashimi.heads import DmlHead
from solfa.models.sashimi.network import Sashimi

FRAME = 64
"""Samples over which expected variances are averaged."""


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


def frame_levels(head: DmlHead, outputs: Float[Tensor, "B N P"]) -> Float32[Tensor, "B F"]:
    """Return half the logarithm of the mean expected variance of every whole frame."""
    variance = head.expected(outputs).variance
    return _frames(variance).mean(dim=-1).log() / 2


def level_penalty(
    head: DmlHead, own: Float[Tensor, "B N P"], real: Float[Tensor, "B N P"], mask: Bool[Tensor, "B N"]
) -> Float32[Tensor, "B"]:
    """Score how far the levels in own draws are from those in each recording, over frames that the mask keeps whole."""
    differences = frame_levels(head, own) - frame_levels(head, real).detach()
    kept = _frames(mask).all(dim=-1)
    return differences.square().masked_fill(~kept, 0).sum(dim=1) / kept.sum(dim=1).clamp(min=1)


def _frames(values: Shaped[Tensor, "B N"]) -> Shaped[Tensor, "B F n"]:
    """Cut what belongs to samples into whole frames; what is left over at the end is left out."""
    num_frames = values.shape[1] // FRAME
    return values[:, : num_frames * FRAME].reshape(len(values), num_frames, FRAME)
