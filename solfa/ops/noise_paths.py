"""Flow matching and diffusion as paths from data to noise: what a network reads at a time, and what it must predict.

    data x  ──  t = 0  ──►  x_t = a(t) x + b(t) e  ──  t = 1  ──►  noise e

    rectified flow    a = 1 - t          b = t             the network predicts e - x
    v                 a = cos(pi t/2)    b = sin(pi t/2)   the network predicts a e - b x

Dividing x_t by a + b turns any such path into the straight one at the time b / (a + b). So one sampler serves all
networks: it follows the straight path, and `velocity_on_line` asks the network in its own terms.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

Objective = Literal["rectified_flow", "v"]

Coefficients = tuple[Float[Tensor, "*B"], Float[Tensor, "*B"]]
"""How much of the data and how much of the noise there is at each time."""

Predict = Callable[[Float[Tensor, "B Z T"], Float[Tensor, "B"]], Float[Tensor, "B Z T"]]
"""What a network predicts from noised data and their times."""


def coefficients(times: Float[Tensor, "*B"], objective: Objective) -> Coefficients:
    """Return a(t) and b(t)."""
    if objective == "rectified_flow":
        return 1 - times, times
    angles = times * (math.pi / 2)
    return angles.cos(), angles.sin()


def noised(
    data: Float[Tensor, "B Z T"], noise: Float[Tensor, "B Z T"], times: Float[Tensor, "B"], objective: Objective
) -> Float[Tensor, "B Z T"]:
    """Move data towards noise.

    >>> import torch
    >>> from solfa.ops import noised, target
    >>> data, noise = torch.zeros(1, 1, 2), torch.ones(1, 1, 2)
    >>> noised(data, noise, torch.tensor([0.25]), "rectified_flow").tolist()
    [[[0.25, 0.25]]]
    >>> target(data, noise, torch.tensor([0.25]), "rectified_flow").tolist()
    [[[1.0, 1.0]]]
    """
    a, b = _columns(*coefficients(times, objective))
    return a * data + b * noise


def target(
    data: Float[Tensor, "B Z T"], noise: Float[Tensor, "B Z T"], times: Float[Tensor, "B"], objective: Objective
) -> Float[Tensor, "B Z T"]:
    """Return what the network should predict.

    >>> import torch
    >>> from solfa.ops import target
    >>> data, noise = torch.full((1, 1, 2), 3.0), torch.ones(1, 1, 2)
    >>> target(data, noise, torch.tensor([0.5]), "rectified_flow").tolist()  # the noise less the data, at any time
    [[[-2.0, -2.0]]]
    >>> target(data, noise, torch.tensor([0.0]), "v").tolist()  # at the data, the noise
    [[[1.0, 1.0]]]
    """
    if objective == "rectified_flow":
        return noise - data
    a, b = _columns(*coefficients(times, objective))
    return a * noise - b * data


def velocity_on_line(
    predict: Predict, objective: Objective, points: Float[Tensor, "B Z T"], times: Float[Tensor, "B"]
) -> Float[Tensor, "B Z T"]:
    """Return e - x as the network sees it, at points (1 - t) x + t e, whatever its objective."""
    if objective == "rectified_flow":
        return predict(points, times)
    own = torch.atan2(times, 1 - times) * (2 / math.pi)
    a, b = _columns(*coefficients(own, objective))
    read = points * (a + b)
    predicted = predict(read, own)
    # With v = a e - b x and x_t = a x + b e, rotating back gives x and e.
    return (b * read + a * predicted) - (a * read - b * predicted)


def shifted(times: Float[Tensor, "*B"], shift: float | Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Spend more of the time near noise (`shift` above 1), as long sequences need; 0 and 1 stay where they are."""
    return shift * times / (1 + (shift - 1) * times)


def normal_quantile(fractions: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """Return the standard normal numbers below which these fractions of all lie."""
    return math.sqrt(2) * torch.erfinv(2 * fractions - 1)


def _columns(*values: Float[Tensor, "B"]) -> tuple[Float[Tensor, "B 1 1"], ...]:
    return tuple(value[:, None, None] for value in values)
