"""How probable data are to a flow: follow them to noise, and count how much the flow spreads them on the way.

    dz/dt = u(z, t)  from data at t = 0 to noise at t = 1         log p(x) = log N(z_1; 0, 1) + integral of div u dt

(Chen et al. 2018, "instantaneous change of variables"). The divergence is estimated with random signs (Hutchinson
1989), the same along the whole way, so that each of them gives an unbiased estimate of the whole integral.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from solfa.ops.flow_samplers import Velocity


def flow_log_prob(
    velocity: Velocity, data: Float[Tensor, "B Z T"], signs: Float[Tensor, "P B Z T"], num_steps: int
) -> Float[Tensor, "P B"]:
    """Estimate the log-density, in nats, of every row, once per vector of signs (fourth-order Runge-Kutta)."""

    def slopes(points: Tensor, time: float) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            here = points.detach().requires_grad_()
            speed = velocity(here, time)
            pulled = [torch.autograd.grad((speed * some).sum(), here, retain_graph=True)[0] for some in signs]
        return speed.detach(), (torch.stack(pulled) * signs).sum(dim=(2, 3))

    points = data
    spread = data.new_zeros(signs.shape[:2])
    step = 1.0 / num_steps
    for number in range(num_steps):
        time = number * step
        first, a = slopes(points, time)
        second, b = slopes(points + step / 2 * first, time + step / 2)
        third, c = slopes(points + step / 2 * second, time + step / 2)
        fourth, d = slopes(points + step * third, time + step)
        points = points + step / 6 * (first + 2 * second + 2 * third + fourth)
        spread = spread + step / 6 * (a + 2 * b + 2 * c + d)
    normal = -0.5 * (points.square() + math.log(2 * math.pi)).sum(dim=(1, 2))
    return normal + spread


def random_signs(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw -1 and 1."""
    return torch.randint(0, 2, shape, generator=generator).float() * 2 - 1
