"""Packed linear layers: equal products, no weights kept twice, nothing to save."""

import copy

import pytest
import torch
from torch import nn

from solfa.errors import ConfigError
from solfa.nn.linears.packed import PackedLinear, can_pack, pack_linears, replace_linears

needs_kernels = pytest.mark.skipif(not can_pack(), reason="this torch has no packed linear layers")


@needs_kernels
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (2, 7), (33, 1)])
@torch.no_grad()
def test_products_are_equal_but_for_rounding(bias: bool, shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(48, 130, bias=bias), nn.GELU(), nn.Linear(130, 5, bias=bias))
    packed = pack_linears(copy.deepcopy(plain))
    assert [type(module) for module in packed] == [PackedLinear, nn.GELU, PackedLinear]
    x = torch.randn(*shape, 48)
    torch.testing.assert_close(packed(x), plain(x))
    assert list(packed.parameters()) == []


@needs_kernels
def test_saving_packed_weights_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be saved"):
        pack_linears(nn.Sequential(nn.Linear(8, 8))).state_dict()


def test_other_precisions_stay_as_they_are() -> None:
    model = pack_linears(nn.Sequential(nn.Linear(8, 8, dtype=torch.float64)))
    assert type(model[0]) is nn.Linear


def test_every_linear_layer_is_replaced_wherever_it_stands() -> None:
    inner = nn.Module()
    inner.proj = nn.Linear(2, 2)
    model = nn.ModuleDict({"list": nn.ModuleList([nn.Linear(2, 2), inner]), "norm": nn.LayerNorm(2)})
    replaced = replace_linears(model, lambda linear: nn.Identity())
    assert not any(isinstance(module, nn.Linear) for module in replaced.modules())
    assert sum(isinstance(module, nn.Identity) for module in replaced.modules()) == 2
