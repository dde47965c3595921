"""Draw a class at a temperature, from numbers in (0, 1) that the caller supplies.

A draw is a pure function of the distribution and these numbers, so one generator can serve a whole batch, each clip can
have its own, or numbers can be drawn for many steps at once: the same numbers give the same classes.
"""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from solfa.errors import ConfigError
from solfa.ops.sampling import invert_distribution

TemperatureSemantics = Literal["heuristic", "exact"]
"""`exact` raises each class's probability to the power 1/T; `heuristic` is a shortcut that some distributions have.
At temperature 1 both are the distribution itself, at 0 its most probable class."""


def check_temperature(temperature: float) -> None:
    """Refuse an invalid temperature."""
    if not 0 <= temperature < math.inf:
        raise ConfigError(
            f"temperature: expected a number of at least 0, found {temperature}; 1 leaves the distribution as it is"
        )


def draw_uniforms(shape: Sequence[int], generator: torch.Generator) -> Float[Tensor, "*B"]:
    """Draw numbers in the open interval (0, 1), on the generator's device.

    In float64 if available: in float32, one number in 17 million is 0. At 16,000 draws a second, that is a draw from
    the farthest tail, a loud click, every quarter of an hour.

    >>> import torch
    >>> from solfa.ops import draw_uniforms
    >>> uniforms = draw_uniforms((1000,), torch.Generator().manual_seed(0))
    >>> uniforms.dtype, bool(((uniforms > 0) & (uniforms < 1)).all())
    (torch.float64, True)
    """
    dtype = torch.float32 if generator.device.type == "mps" else torch.float64
    uniforms = torch.rand(tuple(shape), generator=generator, device=generator.device, dtype=dtype)
    return uniforms.clamp_(min=torch.finfo(dtype).eps / 4)


def draw_tempered(
    log_probs: Float[Tensor, "*B V"], uniforms: Float[Tensor, "*B"], temperature: float
) -> Int64[Tensor, "*B"]:
    """Draw a class from probabilities to the power 1/T; the logarithms may be off by any constant."""
    if temperature == 0:
        return log_probs.argmax(dim=-1)
    # The largest becomes zero first, so that no temperature, however low, makes it infinite.
    tempered = (log_probs - log_probs.amax(dim=-1, keepdim=True)) / temperature
    drawn = invert_distribution(tempered.softmax(dim=-1).to(uniforms.device), uniforms)
    return drawn.to(log_probs.device)
