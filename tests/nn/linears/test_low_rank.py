"""A low-rank product against the matrix that it stands for."""

import pytest
import torch

from solfa.nn.linears.low_rank import LowRank


@pytest.mark.parametrize("scale", [1.0, 0.25])
@pytest.mark.parametrize("places", [(), (5,), (2, 3)])
def test_it_is_a_matrix_of_low_rank_times_a_scale(places: tuple[int, ...], scale: float) -> None:
    part = LowRank(9, 7, 2, scale)
    x = torch.randn(*places, 9)
    matrix = scale * part.up.weight @ part.down.weight
    assert matrix.shape == (7, 9) and torch.linalg.matrix_rank(matrix) == 2
    assert torch.allclose(part(x), x @ matrix.T, atol=1e-5)


def test_it_has_two_narrow_matrices_and_nothing_else() -> None:
    shapes = {name: tuple(parameter.shape) for name, parameter in LowRank(9, 7, 2, 1.0).named_parameters()}
    assert shapes == {"down.weight": (2, 9), "up.weight": (7, 2)}


def test_from_zero_only_the_way_up_has_a_gradient() -> None:
    part = LowRank(9, 7, 2, 1.0)
    torch.nn.init.zeros_(part.up.weight)
    read = part(torch.randn(4, 9))
    assert (read == 0).all()
    read.sum().backward()
    assert part.up.weight.grad is not None and part.down.weight.grad is not None
    assert part.up.weight.grad.abs().min() > 0 and (part.down.weight.grad == 0).all()
