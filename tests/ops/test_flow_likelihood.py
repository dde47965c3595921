"""The density along a flow is the known one where the flow is exact."""

import math

import pytest
import torch

from solfa.ops.flow_likelihood import flow_log_prob, random_signs


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5])
def test_a_gaussian_has_its_density_and_so_its_entropy(scale):
    """Of z = (1 - t) x + t e with x of variance s^2, the best velocity is linear in z; its trace needs no luck."""
    generator = torch.Generator().manual_seed(0)
    data = scale * torch.randn(400, 3, 4, generator=generator, dtype=torch.float64)
    signs = random_signs((1, 400, 3, 4), generator).double()

    def velocity(points: torch.Tensor, t: float) -> torch.Tensor:
        return points * (t - (1 - t) * scale**2) / ((1 - t) ** 2 * scale**2 + t**2)

    found = flow_log_prob(velocity, data, signs, num_steps=64)[0]
    expected = torch.distributions.Normal(0.0, scale).log_prob(data).sum(dim=(1, 2))
    assert torch.allclose(found, expected, atol=1e-4)
    entropy = 12 * 0.5 * math.log(2 * math.pi * math.e * scale**2)
    # The mean of 400 log-densities of 12 Gaussians: half of a chi-square of 12, so a deviation of sqrt(6 / 400).
    assert abs(-float(found.mean()) - entropy) < 4 * math.sqrt(6 / 400)


def test_probes_are_unbiased_where_channels_mix():
    """A velocity A z with A full: the sign vectors scatter around the trace, and the density is a Gaussian's."""
    generator = torch.Generator().manual_seed(1)
    matrix = 0.5 * torch.randn(4, 4, generator=generator, dtype=torch.float64)
    data = torch.randn(1, 4, 1, generator=generator, dtype=torch.float64)

    def velocity(points: torch.Tensor, t: float) -> torch.Tensor:
        return torch.einsum("ij,bjt->bit", matrix, points)

    signs = random_signs((1, 512, 4, 1), generator).double()
    found = flow_log_prob(velocity, data.expand(512, 4, 1), signs, num_steps=16)[0]
    last = torch.linalg.matrix_exp(matrix) @ data[0]
    exact = -0.5 * (last.square() + math.log(2 * math.pi)).sum() + torch.trace(matrix)
    error = float(found.std()) / math.sqrt(len(found))
    assert error > 0.005 and abs(float(found.mean() - exact)) < 4 * error
