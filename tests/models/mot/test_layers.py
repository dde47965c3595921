"""The audio side of one layer, and which layer of a donor goes where."""

from pathlib import Path
from typing import Any

import pytest
import torch

from solfa.models.mot.layers import AudioLayer, spread
from tests.models.mot.tiny_mot import DONOR_LAYERS, KINDS, make_mot, name_of, read_donor


@pytest.mark.parametrize("num_layers", [1, 2, 3, 16, 24, 30])
def test_donors_are_spread_over_all_layers(num_layers: int) -> None:
    for num_donors in range(1, 41):
        taken = [spread(layer, num_layers, num_donors) for layer in range(num_layers)]
        assert taken[0] == 0 and taken == sorted(taken)
        if num_layers > 1:
            assert taken[-1] == num_donors - 1
        if num_donors <= num_layers:
            assert set(taken) == set(range(num_donors)), "every donor is used"
        else:
            assert len(set(taken)) == num_layers, "no donor is used twice"
        for layer, source in enumerate(taken):
            exact = layer * (num_donors - 1) / max(num_layers - 1, 1)
            assert abs(source - exact) <= 0.5


def test_sixteen_layers_reach_all_depths_of_twenty_four() -> None:
    assert [spread(i, 16, 24) for i in range(16)] == [0, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18, 20, 21, 23]


def test_each_layer_holds_the_donor_it_was_given(base: Path, donor: Path) -> None:
    model, lm = make_mot(base, donor), read_donor(donor).model
    assert DONOR_LAYERS == 5 and len(model.layers) == 3
    for layer, source in zip(model.layers, (0, 2, 4), strict=True):
        given: Any = lm.transformer.layers[source]
        assert torch.equal(layer.ffn.fc1.weight, given.fc1.weight)
        assert torch.equal(layer.ffn.fc2.weight, given.fc2.weight)
        assert torch.equal(layer.ffn.norm.weight, given.ffn_norm.weight)
        assert torch.equal(layer.ffn.norm.bias, given.ffn_norm.bias)


@pytest.mark.parametrize("kinds", KINDS, ids=name_of)
def test_a_layer_adds_what_was_attended_and_then_its_ffn(kinds: tuple[Any, Any], base: Path) -> None:
    model = make_mot(base, attention=kinds[0], ffn=kinds[1])
    layer, own = model.layers[1], model.base.layers[1]
    assert isinstance(layer, AudioLayer)
    x, mixed = torch.randn(2, 5, 32), torch.randn(2, 5, 32)

    def normed(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return weight * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()

    expected = layer.attention.project(normed(layer.input_norm.weight, x), own.self_attn)
    for ours, slow in zip(layer.project(x, own), expected, strict=True):
        assert torch.allclose(ours, slow, atol=1e-4)
    raised = x + layer.attention.out(mixed, own.self_attn)
    raised = raised + layer.ffn(normed(layer.post_norm.weight, raised), own.mlp)
    assert torch.allclose(layer.finish(x, mixed, own), raised, atol=1e-4, rtol=1e-4)
