"""Codes chosen together: the search beside its definition, how good it is, and what it leaves as it was."""

import pytest
import torch
from torch import Tensor

from solfa.nn.residual_beam import BEAM, growth_weights, search_codes
from solfa.nn.rvq import ResidualVectorQuantizer


def search_slowly(vector: Tensor, codebooks: Tensor, beam: int) -> list[int]:
    """Follow the best beginnings, one vector and one entry at a time."""
    beginnings: list[tuple[float, list[int], Tensor]] = [(0.0, [], vector)]
    for codebook in codebooks:
        longer = [
            (float((left - entry).square().sum()), [*codes, index], left - entry)
            for _, codes, left in beginnings
            for index, entry in enumerate(codebook)
        ]
        beginnings = sorted(longer, key=lambda one: one[0])[:beam]
    return beginnings[0][1]


def residual_codebooks(num: int, size: int, dim: int) -> Tensor:
    """Entries that get smaller from codebook to codebook, as those of trained ones do."""
    return torch.randn(num, size, dim, dtype=torch.float64) * 0.7 ** torch.arange(num)[:, None, None]


def squared_errors(vectors: Tensor, codebooks: Tensor, codes: Tensor) -> Tensor:
    decoded = sum(codebook[chosen] for codebook, chosen in zip(codebooks, codes.unbind(-1), strict=True))
    return (vectors - decoded).square().sum(-1)


# 64 entries and more are looked at group by group, fewer and odd numbers all at once; 300 vectors are several blocks.
@pytest.mark.parametrize(("size", "beam"), [(5, 2), (5, 7), (32, 4), (64, 2), (64, 3), (128, 4), (96, 16)])
def test_the_search_finds_what_its_definition_finds(size: int, beam: int) -> None:
    codebooks = residual_codebooks(3, size, 6)
    vectors = torch.randn(300, 6, dtype=torch.float64)
    found = search_codes(vectors, codebooks, beam)
    for vector, codes in zip(vectors[::20], found[::20].tolist(), strict=True):
        assert codes == search_slowly(vector, codebooks, beam)


def test_a_beam_as_wide_as_all_beginnings_finds_the_best_codes_there_are() -> None:
    codebooks = residual_codebooks(3, 6, 4)
    vectors = torch.randn(40, 4, dtype=torch.float64)
    every = torch.cartesian_prod(*[torch.arange(6)] * 3)
    errors = torch.stack([squared_errors(vectors, codebooks, codes.expand(40, -1)) for codes in every])
    found = squared_errors(vectors, codebooks, search_codes(vectors, codebooks, 36))
    assert torch.allclose(found, errors.min(dim=0).values, rtol=1e-12, atol=1e-12)


def test_wider_beams_come_nearer_on_average() -> None:
    codebooks = residual_codebooks(6, 64, 16)
    vectors = 3 * torch.randn(500, 16, dtype=torch.float64)
    errors = [float(squared_errors(vectors, codebooks, search_codes(vectors, codebooks, b)).mean()) for b in (1, 4, 16)]
    assert errors[1] < 0.97 * errors[0] and errors[2] < errors[1]


def test_a_quantizer_that_keeps_its_codebooks_trains_on_the_codes_that_are_stored() -> None:
    quantizer = ResidualVectorQuantizer(3, 64, 8, kmeans_iterations=0).double()
    vectors = torch.randn(2, 50, 8, dtype=torch.float64)
    quantizer.learns = False
    stored = quantizer.encode(vectors, beam=BEAM)
    assert torch.equal(quantizer(vectors).codes, stored)
    assert not torch.equal(stored, quantizer.encode(vectors))
    assert torch.equal(quantizer(vectors).vectors, quantizer.decode(stored))


def test_growth_is_what_an_entry_adds_to_the_squared_length():
    torch.manual_seed(0)
    vectors, codebook = torch.randn(5, 8).double(), torch.randn(7, 8).double()
    growth = torch.nn.functional.linear(vectors, *growth_weights(codebook))
    lengths = (vectors[:, None] - codebook).square().sum(dim=2)
    torch.testing.assert_close(growth + vectors.square().sum(dim=1, keepdim=True), lengths)
