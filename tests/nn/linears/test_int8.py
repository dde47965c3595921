"""Weights of eight bits: how far they move, what a product makes of it, and what may not be done with them."""

import copy

import pytest
import torch
from torch import nn

from solfa.errors import ConfigError
from solfa.models.lm.conditions import Conditions
from solfa.models.lm.network import CodecLM, CodecLMConfig
from solfa.nn.linears.fbgemm import has_fbgemm
from solfa.nn.linears.int8 import Int8Linear, quantise_linears

pytestmark = pytest.mark.skipif(not has_fbgemm(), reason="this torch has no int8 kernels")


def stored_weight(layer: Int8Linear) -> torch.Tensor:
    """Read the weight back: the product with the identity."""
    return layer(torch.eye(layer.in_features)).T


@pytest.fixture
def linear() -> nn.Linear:
    torch.manual_seed(0)
    linear = nn.Linear(96, 50, bias=False)
    linear.weight.data *= torch.logspace(-3, 3, 50)[:, None]
    linear.weight.data[7] = 0
    return linear


@torch.no_grad()
def test_no_weight_moves_by_more_than_half_a_level_of_its_row(linear: nn.Linear) -> None:
    levels = linear.weight.abs().amax(dim=1, keepdim=True) / 127
    moved = (stored_weight(Int8Linear(linear)) - linear.weight).abs()
    assert (moved <= levels * 0.501).all()
    assert moved[7].max() == 0


@torch.no_grad()
def test_only_the_weights_are_rounded(linear: nn.Linear) -> None:
    layer = Int8Linear(linear)
    x = torch.randn(4, 3, 96)
    x[0, 0, 0] = 10  # An outlier takes the range of its row, and only of its row.
    expected = x @ stored_weight(layer).T
    per_output = expected.abs().amax(dim=(0, 1)).clamp(min=1e-9)
    by_inputs = ((layer(x) - expected).abs() / per_output).max()
    by_weights = ((linear(x) - expected).abs() / per_output).max()
    assert by_inputs < 1e-3
    assert by_inputs < by_weights / 5


@torch.no_grad()
def test_a_row_gives_the_same_in_any_batch(linear: nn.Linear) -> None:
    layer = Int8Linear(linear)
    x = torch.randn(9, 96) * torch.logspace(-4, 4, 9)[:, None]
    together = layer(x)
    for row in range(9):
        assert torch.equal(layer(x[row : row + 1]), together[row : row + 1])
    assert layer(torch.zeros(2, 96)).abs().max() == 0


@torch.no_grad()
def test_biases_are_added_once() -> None:
    linear = nn.Linear(16, 8)
    layer = Int8Linear(linear)
    torch.testing.assert_close(layer(torch.zeros(3, 16)), linear.bias.expand(3, 8))


@torch.no_grad()
def test_a_small_model_still_prefers_the_same_codes() -> None:
    torch.manual_seed(0)
    config = CodecLMConfig(num_codebooks=2, codebook_size=64, dim=64, num_layers=2, num_heads=4, ffn_dim=128)
    model = CodecLM(config).eval()
    tokens = torch.randint(0, 65, (4, 2, 50))
    expected = model(tokens, Conditions.none())
    quantised = quantise_linears(copy.deepcopy(model))
    found = quantised(tokens, Conditions.none())
    assert not any(isinstance(module, nn.Linear) for module in quantised.modules())
    assert (found - expected).abs().max() < 0.05 * expected.abs().max()
    assert (found.argmax(-1) == expected.argmax(-1)).float().mean() > 0.95


def test_the_float_weights_are_freed() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64))
    quantise_linears(model)
    assert [name for name, _ in model.named_parameters()] == ["1.weight", "1.bias"]


def test_saving_packed_weights_is_refused() -> None:
    model = quantise_linears(nn.Sequential(nn.Linear(8, 8)))
    with pytest.raises(ConfigError, match=r"0\.weight: .* cannot be saved"):
        model.state_dict()


def test_a_model_elsewhere_than_on_the_cpu_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"int8 weights: .*cpu, found it on meta"):
        quantise_linears(nn.Linear(8, 8, device="meta"))


def test_a_missing_kernel_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solfa.nn.linears.int8._OPERATOR", "another")
    with pytest.raises(ConfigError, match=r"int8 weights: .*FBGEMM's another"):
        quantise_linears(nn.Sequential(nn.Linear(8, 8)))


def test_packing_leaves_torchs_choice_of_engine(linear: nn.Linear) -> None:
    before = torch.backends.quantized.engine
    Int8Linear(linear)
    assert torch.backends.quantized.engine == before
