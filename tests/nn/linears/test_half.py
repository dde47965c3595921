"""Weights of sixteen bits: what a product makes of them, and what may not be done with them."""

import pytest
import torch
from torch import nn

from solfa.errors import ConfigError
from solfa.nn.linears.fbgemm import has_fbgemm
from solfa.nn.linears.half import HalfLinear, halve_linears

pytestmark = pytest.mark.skipif(not has_fbgemm(), reason="this torch has no float16 kernels")


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (2, 7), (33, 1)])
@torch.no_grad()
def test_only_the_weights_are_rounded_to_float16(bias: bool, shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(96, 50, bias=bias)
    x = torch.randn(*shape, 96)
    rounded = nn.functional.linear(x, linear.weight.half().float(), linear.bias)
    torch.testing.assert_close(HalfLinear(linear)(x), rounded)


def test_the_float_weights_are_freed_and_cannot_be_saved() -> None:
    model = halve_linears(nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64)))
    assert [name for name, _ in model.named_parameters()] == ["1.weight", "1.bias"]
    with pytest.raises(ConfigError, match=r"0\.weight: .* cannot be saved"):
        model.state_dict()


def test_a_model_elsewhere_than_on_the_cpu_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"float16 weights: .*cpu, found it on meta"):
        halve_linears(nn.Linear(8, 8, device="meta"))


def test_packing_leaves_torchs_choice_of_engine() -> None:
    before = torch.backends.quantized.engine
    HalfLinear(nn.Linear(8, 8))
    assert torch.backends.quantized.engine == before
