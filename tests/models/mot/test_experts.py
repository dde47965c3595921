"""Each kind of expert against its definition: where it starts, what it computes, what of it is trained."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter
from safetensors.torch import load_file
from torch import Tensor, nn

from solfa.errors import ConfigError
from solfa.models.mot.attention_experts import AttentionKind, LoraAttention
from solfa.models.mot.ffn_experts import Bridge, BridgeFFN, FFNKind, LoraFFN
from solfa.models.mot.ledger import Ledger
from solfa.models.mot.text_base import FrozenLM
from solfa.nn.linears.low_rank import LowRank
from tests.models.mot.tiny_mot import (
    ATTENTION,
    DONOR_FFN,
    DONOR_WIDTH,
    FFN,
    fresh_base,
    name_of,
    read_donor,
    shake,
)

LAYER = 1
each_base = pytest.mark.parametrize("base_name", ["base", "biased_base"])


@pytest.fixture
def frozen(base_name: str, request: pytest.FixtureRequest) -> FrozenLM:
    return fresh_base(request.getfixturevalue(base_name))


def attention_of(settings: dict[str, Any], frozen: FrozenLM) -> tuple[Any, Any]:
    """Build and write an expert; give it and the layer's own part."""
    expert: Any = TypeAdapter(AttentionKind).validate_python(settings).build(frozen.sizes)
    own, ledger = frozen.layers[LAYER].self_attn, Ledger(expert)
    expert.init_from(own, ledger, "base")
    ledger.close("expert")
    return expert, own


def ffn_of(settings: dict[str, Any], frozen: FrozenLM, donor: Any = None) -> tuple[Any, Any]:
    expert: Any = TypeAdapter(FFNKind).validate_python(settings).build(frozen.sizes, donor)
    own, ledger = frozen.layers[LAYER].mlp, Ledger(expert)
    expert.init_from(own, ledger, "somewhere", donor)
    ledger.close("expert")
    return expert, own


def all_of(expert: Any, x: Tensor, mixed: Tensor, own: nn.Module) -> list[Tensor]:
    return [*expert.project(x, own), expert.out(mixed, own)]


def plus(part: LowRank, linear: nn.Linear, x: Tensor) -> Tensor:
    """A projection whose matrix is the frozen one plus the product, written out."""
    weight = linear.weight + part.scale * part.up.weight @ part.down.weight
    return x @ weight.T + (0 if linear.bias is None else linear.bias)


@each_base
@pytest.mark.parametrize("settings", ATTENTION, ids=name_of)
def test_attention_starts_as_that_of_the_base(settings: dict[str, Any], frozen: FrozenLM) -> None:
    expert, own = attention_of(settings, frozen)
    x, mixed = torch.randn(2, 4, 32), torch.randn(2, 4, 32)
    expected = [own.q_proj(x), own.k_proj(x), own.v_proj(x), own.o_proj(mixed)]
    for ours, theirs in zip(all_of(expert, x, mixed, own), expected, strict=True):
        assert torch.equal(ours, theirs)


@each_base
@pytest.mark.parametrize("settings", [{"kind": "copy"}, {"kind": "lora"}], ids=name_of)
def test_the_ffn_starts_as_that_of_the_base(settings: dict[str, Any], frozen: FrozenLM) -> None:
    expert, own = ffn_of(settings, frozen)
    x = torch.randn(2, 4, 32)
    assert torch.equal(expert(x, own), own(x))


@pytest.mark.parametrize("base_name", ["base"])
@pytest.mark.parametrize("donated", [False, True])
def test_a_bridge_starts_as_nothing(donated: bool, frozen: FrozenLM, donor: Path) -> None:
    layer = read_donor(donor).model.transformer.layers[2] if donated else None
    expert, own = ffn_of({"kind": "bridge"}, frozen, layer)
    assert (expert.up.weight == 0).all() and (expert(torch.randn(2, 4, 32), own) == 0).all()


@pytest.mark.parametrize("base_name", ["base"])
@pytest.mark.parametrize(
    ("make", "settings"),
    [*((attention_of, settings) for settings in ATTENTION[1:]), *((ffn_of, settings) for settings in FFN)],
    ids=name_of,
)
def test_an_expert_owns_its_weights_and_none_of_the_base(
    make: Callable[..., tuple[Any, Any]], settings: dict[str, Any], frozen: FrozenLM
) -> None:
    expert, own = make(settings, frozen)
    theirs = {parameter.data_ptr() for parameter in frozen.model.parameters()}
    assert not theirs & {parameter.data_ptr() for parameter in expert.parameters()}
    before = {name: parameter.clone() for name, parameter in own.named_parameters()}
    shake(expert)
    assert all(torch.equal(parameter, before[name]) for name, parameter in own.named_parameters())
    assert list(expert.parameters()) and all(parameter.requires_grad for parameter in expert.parameters())


@pytest.mark.parametrize("base_name", ["base"])
def test_shared_attention_has_nothing_to_train(frozen: FrozenLM) -> None:
    expert, _ = attention_of({"kind": "shared"}, frozen)
    assert not list(expert.parameters())


@each_base
def test_low_rank_attention_adds_a_product_to_each_projection(frozen: FrozenLM) -> None:
    expert, own = attention_of({"kind": "lora", "rank": 3, "scale": 0.5}, frozen)
    shake(expert, 0.5)
    x, mixed = torch.randn(2, 4, 32), torch.randn(2, 4, 32)
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    read = (x, x, x, mixed)
    expected = [plus(getattr(expert, n), getattr(own, n), part) for n, part in zip(names, read, strict=True)]
    for ours, slow in zip(all_of(expert, x, mixed, own), expected, strict=True):
        assert torch.allclose(ours, slow, atol=1e-4)
    assert {part.down.weight.shape[0] for part in expert.children()} == {3}


@each_base
def test_a_low_rank_ffn_adds_a_product_to_each_projection(frozen: FrozenLM) -> None:
    expert, own = ffn_of({"kind": "lora", "rank": 3, "scale": 2.0}, frozen)
    shake(expert, 0.2)
    x = torch.randn(2, 4, 32)
    gate = plus(expert.gate_proj, own.gate_proj, x)
    inner = gate * gate.sigmoid() * plus(expert.up_proj, own.up_proj, x)
    assert torch.allclose(expert(x, own), plus(expert.down_proj, own.down_proj, inner), atol=1e-3, rtol=1e-4)


@each_base
def test_copies_compute_what_the_base_would_with_their_weights(frozen: FrozenLM) -> None:
    x, mixed = torch.randn(2, 4, 32), torch.randn(2, 4, 32)
    attention, own = attention_of({"kind": "copy"}, frozen)
    ffn, own_ffn = ffn_of({"kind": "copy"}, frozen)
    shake(attention)
    shake(ffn)
    ours = [*all_of(attention, x, mixed, own), ffn(x, own_ffn)]
    before = [own.q_proj(x), own.k_proj(x), own.v_proj(x), own.o_proj(mixed), own_ffn(x)]
    own.load_state_dict(attention.state_dict())
    own_ffn.load_state_dict(ffn.state_dict())
    after = [own.q_proj(x), own.k_proj(x), own.v_proj(x), own.o_proj(mixed), own_ffn(x)]
    for copied, old, new in zip(ours, before, after, strict=True):
        assert torch.equal(copied, new) and not torch.allclose(copied, old, atol=1e-2)


@pytest.mark.parametrize("base_name", ["base"])
def test_a_bridge_is_the_ffn_of_musicgen_between_two_projections(frozen: FrozenLM, donor: Path) -> None:
    for index in range(5):
        expert, own = ffn_of({"kind": "bridge"}, frozen, read_donor(donor).model.transformer.layers[index])
        torch.nn.init.normal_(expert.up.weight)
        weights = load_file(donor / "model.safetensors")
        layer = {
            name.removeprefix(f"model.decoder.layers.{index}."): weight
            for name, weight in weights.items()
            if name.startswith(f"model.decoder.layers.{index}.")
        }
        x = torch.randn(2, 4, 32, dtype=torch.float64)
        lowered = x @ expert.down.weight.double().T
        centred = lowered - lowered.mean(-1, keepdim=True)
        normed = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        normed = normed * layer["final_layer_norm.weight"] + layer["final_layer_norm.bias"]
        inner = normed @ layer["fc1.weight"].double().T
        inner = inner * 0.5 * (1 + torch.erf(inner / 2**0.5))
        expected = inner @ layer["fc2.weight"].double().T @ expert.up.weight.double().T
        assert torch.allclose(expert(x.float(), own).double(), expected, atol=1e-4)
        assert expert.fc1.weight.shape == (DONOR_FFN, DONOR_WIDTH)


@pytest.mark.parametrize("base_name", ["base"])
def test_a_fresh_bridge_keeps_the_size_of_what_passes(frozen: FrozenLM) -> None:
    expert, _ = ffn_of({"kind": "bridge", "width": 64, "hidden": 256}, frozen)
    assert (expert.norm.weight == 1).all() and (expert.norm.bias == 0).all()
    for part in (expert.down, expert.fc1, expert.fc2):
        assert abs(part.weight.detach().std() * part.in_features**0.5 - 1) < 0.1


@pytest.mark.parametrize("base_name", ["base"])
def test_the_widths_of_a_bridge_are_its_own_the_donors_or_derived(frozen: FrozenLM, donor: Path) -> None:
    def widths(settings: dict[str, int], layer: Any) -> tuple[int, int]:
        bridge = Bridge.model_validate(settings).build(frozen.sizes, layer)
        return bridge.fc1.in_features, bridge.fc1.out_features

    layer = read_donor(donor).model.transformer.layers[0]
    assert widths({}, None) == (16, 64)
    assert widths({"width": 6}, None) == (6, 24)
    assert widths({"width": 6, "hidden": 10}, None) == (6, 10)
    assert widths({}, layer) == (DONOR_WIDTH, DONOR_FFN)


@pytest.mark.parametrize("base_name", ["base"])
@pytest.mark.parametrize("settings", [{"width": 12}, {"hidden": 99}])
def test_a_bridge_of_other_widths_than_the_donors_is_refused(
    settings: dict[str, int], frozen: FrozenLM, donor: Path
) -> None:
    layer = read_donor(donor).model.transformer.layers[0]
    with pytest.raises(ConfigError, match=r"shape .*found .*donor"):
        ffn_of({"kind": "bridge", **settings}, frozen, layer)


def test_only_a_bridge_has_parts_of_a_donor() -> None:
    bridge = BridgeFFN(8, 4, 6)
    assert {id(part) for part in bridge.donated} == {id(bridge.norm), id(bridge.fc1), id(bridge.fc2)}


@pytest.mark.parametrize("kind", [LoraAttention, LoraFFN])
def test_a_rank_or_scale_of_nothing_is_refused(kind: type[LoraAttention] | type[LoraFFN]) -> None:
    for settings in ({"rank": 0}, {"scale": 0.0}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            kind.model_validate(settings)
