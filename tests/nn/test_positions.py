"""Positions against transformers' table, and against rotation as complex multiplication."""

import pytest
import torch

from solfa.nn.positions import Rope, Sinusoidal, rotate, rotation, sinusoids


@pytest.mark.parametrize("dim", [4, 5, 64])
def test_sinusoids_are_those_of_musicgen(dim: int) -> None:
    from transformers.models.musicgen.modeling_musicgen import MusicgenSinusoidalPositionalEmbedding

    table = MusicgenSinusoidalPositionalEmbedding.get_embedding(3000, dim)
    assert torch.equal(sinusoids(torch.arange(3000), dim), table)
    assert torch.equal(sinusoids(torch.tensor([2999, 7]), dim), table[[2999, 7]])


def test_rotation_multiplies_each_pair_by_a_complex_number() -> None:
    heads, positions = torch.randn(2, 3, 5, 8), torch.tensor([0, 1, 5, 100, 4000])
    turned = rotate(heads, rotation(positions, 8, base=100.0))
    pairs = torch.complex(heads[..., :4].double(), heads[..., 4:].double())
    for step, position in enumerate(positions.tolist()):
        for pair in range(4):
            angle = position * 100.0 ** (-2 * pair / 8)
            expected = pairs[..., step, pair] * torch.polar(torch.tensor(1.0).double(), torch.tensor(angle).double())
            assert torch.allclose(turned[..., step, pair].double(), expected.real, atol=2e-3)
            assert torch.allclose(turned[..., step, pair + 4].double(), expected.imag, atol=2e-3)


def test_rotated_products_depend_on_the_distance_only() -> None:
    query, key = torch.randn(1, 1, 1, 16), torch.randn(1, 1, 1, 16)

    def product(at: int, to: int) -> torch.Tensor:
        turned = [rotate(x, rotation(torch.tensor([p]), 16, 10_000.0)) for x, p in ((query, at), (key, to))]
        return (turned[0] * turned[1]).sum()

    assert torch.allclose(product(9, 4), product(105, 100), atol=1e-4)
    assert not torch.allclose(product(9, 4), product(9, 5), atol=1e-2)


def test_each_kind_gives_its_own_and_nothing_of_the_other() -> None:
    positions = torch.arange(3)
    assert Sinusoidal().embedding(positions, 8) is not None and Sinusoidal().rotation(positions, 4) is None
    assert Rope().embedding(positions, 8) is None and Rope().rotation(positions, 4) is not None


def test_half_precision_is_rotated_in_float32_and_given_back() -> None:
    heads = torch.randn(1, 1, 4, 8)
    angles = rotation(torch.arange(1000, 1004), 8, 10_000.0)
    turned = rotate(heads.bfloat16(), angles)
    assert turned.dtype == torch.bfloat16
    assert torch.equal(turned, rotate(heads.bfloat16().float(), angles).bfloat16())
