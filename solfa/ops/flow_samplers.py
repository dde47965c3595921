"""From noise to data along the velocity of a network, in a few steps.

Points lie on straight paths, z = (1 - t) x + t e, and the velocity is e - x. The probability-flow equation dz/dt = u is
what Euler, Heun and DPM++ solve; ping-pong draws new noise in every step.

    euler      one evaluation a step, first order
    heun       two, second order; the last step is Euler's
    dpm++      one, second order from the step before (Lu et al. 2022, "2M"), for few steps
    ping-pong  one: jump to the data, go back with new noise; for models that were distilled to few steps
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

Sampler = Literal["euler", "heun", "dpm++", "ping-pong"]
Grid = Literal["even", "log_snr"]
SAMPLERS: tuple[Sampler, ...] = get_args(Sampler)

Velocity = Callable[[Float[Tensor, "B Z T"], float], Float[Tensor, "B Z T"]]
"""e - x at some points at a time."""

Noise = Callable[[], Float[Tensor, "B Z T"]]
"""Draws new noise of the shape of the points."""

Known = Callable[[Float[Tensor, "B Z T"], float], Float[Tensor, "B Z T"]]
"""Puts what is known at a time in its place; called at the start and after every step, the last time with 0."""


def time_grid(num_steps: int, start: float = 1.0, shift: float = 1.0) -> list[float]:
    """Divide the time from `start` down to 0 evenly, then shift towards noise; `start` and 0 stay."""
    even = [start * (num_steps - step) / num_steps for step in range(num_steps + 1)]
    return [start * (shift * (t / start)) / (1 + (shift - 1) * (t / start)) for t in even]


def log_snr_grid(num_steps: int, start: float = 1.0, low: float = -6.2, high: float = 2.0) -> list[float]:
    """Divide the logarithm of data to noise evenly from `low` to `high`, then go to 0, as Stable Audio 3 does.

    A `start` that has more data than `low` says begins there; one that has more than `high` is divided evenly.
    """
    if start < 1:
        low = max(low, _log_ratio(start))
    if low >= high:
        return time_grid(num_steps, start)
    inside = [1 / (1 + math.exp(low + (high - low) * step / num_steps)) for step in range(1, num_steps)]
    return [start, *inside, 0.0]


def sample(
    velocity: Velocity,
    points: Float[Tensor, "B Z T"],
    times: Sequence[float],
    sampler: Sampler,
    new_noise: Noise,
    known: Known = lambda points, time: points,
    on_step: Callable[[int], None] = lambda step: None,
) -> Float[Tensor, "B Z T"]:
    """Follow the velocity from points at `times[0]` to data at `times[-1]`, which must be 0."""
    points = known(points, times[0])
    before: tuple[Float[Tensor, "B Z T"], float] | None = None
    for step, (now, then) in enumerate(pairwise(times), 1):
        speed = velocity(points, now)
        data = points - now * speed
        if sampler == "euler" or (sampler == "heun" and then == 0):
            points = points + (then - now) * speed
        elif sampler == "heun":
            ahead = velocity(points + (then - now) * speed, then)
            points = points + (then - now) * (speed + ahead) / 2
        elif sampler == "dpm++":
            points, before = _dpm(points, data, now, then, before), (data, now)
        else:
            points = (1 - then) * data + then * new_noise() if then else data
        points = known(points, then)
        on_step(step)
    return points


def _dpm(
    points: Float[Tensor, "B Z T"],
    data: Float[Tensor, "B Z T"],
    now: float,
    then: float,
    before: tuple[Float[Tensor, "B Z T"], float] | None,
) -> Float[Tensor, "B Z T"]:
    """Take a step in log((1 - t) / t), extrapolating the data from those of the step before; at both ends Euler's."""
    if before is None or then == 0 or before[1] >= 1:
        return points + (then - now) * (points - data) / now
    earlier, time = before
    ratio = (_log_ratio(now) - _log_ratio(time)) / (_log_ratio(then) - _log_ratio(now))
    extrapolated = data + (data - earlier) / (2 * ratio)
    # The exact solution if the data estimate is constant over the step: noise shrinks, data takes its place.
    return then / now * points + (1 - then - (1 - now) * then / now) * extrapolated


def _log_ratio(time: float) -> float:
    return float(torch.logit(torch.tensor(1 - time, dtype=torch.float64)))
