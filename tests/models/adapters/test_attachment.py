"""Adapters on small networks: nothing changes at first, merged equals unmerged, and files are what PEFT reads."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from solfa.errors import ConfigError
from solfa.models.adapters.adapter_files import read_adapter, write_adapter
from solfa.models.adapters.attachment import (
    StoredAdapter,
    attach,
    base_sha256,
    detach,
    load_adapter,
    stored_adapter,
)
from solfa.models.adapters.lora import Lora
from solfa.models.adapters.merged_weights import WeightedAdapter, merge_adapters
from solfa.models.adapters.targets import choose_targets
from solfa.pretrained.origin import Origin

DIM = 6
KINDS = {"lora": Lora(rank=2), "rslora": Lora(rank=4, alpha=3, rslora=True), "dora": Lora(rank=2, dora=True)}


class Stack(nn.Module):
    """Two blocks with a linear layer and a convolution each, and a head that is no block."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleDict({"mix": nn.Linear(DIM, DIM), "conv": nn.Conv1d(DIM, DIM, 3, padding=1)}) for _ in range(2)
        )
        self.head = nn.Linear(DIM, 1)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + torch.tanh(layer["mix"](x))  # type: ignore[index]
            x = x + layer["conv"](x.transpose(1, 2)).transpose(1, 2)  # type: ignore[index]
        return self.head(x)


def make_stack(seed: int = 0) -> Stack:
    torch.manual_seed(seed)
    return Stack().double()


def base_of(network: nn.Module) -> Origin:
    return Origin(source="stack", sha256=base_sha256(network))


def trained(lora: Lora, seed: int = 1) -> tuple[Stack, StoredAdapter]:
    """Put an adapter on the stack, and give it numbers as training would."""
    network = make_stack()
    attach(network, lora, base_of(network))
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter))
    return network.eval(), stored_adapter(network)


INPUT = torch.randn(2, 5, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_adapter_changes_nothing_and_alone_is_trained(kind: str) -> None:
    network = make_stack()
    before = network(INPUT)
    attach(network, KINDS[kind], base_of(network))
    # A layer that learns lengths divides by them and multiplies again, which rounds; a product with zero does not.
    assert torch.allclose(network(INPUT), before, rtol=1e-13) if kind == "dora" else torch.equal(network(INPUT), before)
    trained = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
    assert trained and all(".lora_" in name for name in trained)
    assert not any(name.startswith("head") for name in trained)


@pytest.mark.parametrize("kind", KINDS)
def test_merged_equals_unmerged(kind: str) -> None:
    adapted, stored = trained(KINDS[kind])
    network = make_stack()
    merge_adapters(network, [WeightedAdapter(stored)], "stack")
    assert not torch.allclose(network(INPUT), make_stack()(INPUT), rtol=1e-3)
    assert torch.allclose(network(INPUT), adapted(INPUT), rtol=1e-12)
    assert network.state_dict().keys() == make_stack().state_dict().keys()


def test_lora_is_the_base_plus_a_scaled_product() -> None:
    lora = KINDS["rslora"]
    _, stored = trained(lora)
    network, base = make_stack(), make_stack()
    merge_adapters(network, [WeightedAdapter(stored)], "stack")
    down, up = (stored["weights"][f"layers.0.mix.lora_{side}.weight"] for side in "AB")
    expected = base.layers[0]["mix"].weight + 3 / 4**0.5 * up @ down  # type: ignore[index]
    assert torch.allclose(network.layers[0]["mix"].weight, expected, rtol=1e-12)  # type: ignore[index]


@pytest.mark.parametrize(("first", "second"), [(1.0, 1.0), (0.5, 0.0), (-0.3, 1.7)])
def test_several_adapters_add_their_changes_by_their_factors(first: float, second: float) -> None:
    stored = [trained(KINDS["lora"], seed=1)[1], trained(KINDS["dora"], seed=2)[1]]
    base = dict(make_stack().named_parameters())
    alone = []
    for adapter in stored:
        network = make_stack()
        merge_adapters(network, [WeightedAdapter(adapter)], "stack")
        alone.append(dict(network.named_parameters()))
    network = make_stack()
    merge_adapters(network, [WeightedAdapter(stored[0], first), WeightedAdapter(stored[1], second)], "stack")
    for name, found in network.named_parameters():
        changes = [other[name] - base[name] for other in alone]
        assert torch.allclose(found, base[name] + first * changes[0] + second * changes[1], atol=1e-12)


def test_a_network_is_itself_again_without_its_adapter() -> None:
    network, _ = trained(KINDS["dora"])
    detach(network)
    assert torch.equal(network(INPUT), make_stack()(INPUT))
    assert network.state_dict().keys() == make_stack().state_dict().keys()


def test_an_adapter_loads_into_another_copy_and_into_no_other_base() -> None:
    adapted, stored = trained(KINDS["dora"])
    network = make_stack()
    attach(network, KINDS["dora"], base_of(network))
    load_adapter(network, stored)
    assert torch.equal(network(INPUT), adapted(INPUT))
    other = make_stack(seed=5)
    attach(other, KINDS["dora"], Origin(source="another", sha256=base_sha256(other)))
    with pytest.raises(ConfigError, match=r"stack.*another"):
        load_adapter(other, stored)
    with pytest.raises(ConfigError, match="trained on the weights"):
        merge_adapters(make_stack(seed=5), [WeightedAdapter(stored)], "another")
    of_other_rank = make_stack()
    attach(of_other_rank, Lora(rank=3, dora=True), base_of(of_other_rank))
    with pytest.raises(ConfigError, match=r"layers\.0\.mix\.lora_A"):
        load_adapter(of_other_rank, stored)


@pytest.mark.parametrize("kind", KINDS)
def test_peft_loads_the_files_and_so_do_we(kind: str, tmp_path: Path) -> None:
    from peft import PeftModel

    adapted, stored = trained(KINDS[kind])
    write_adapter(tmp_path, stored)
    by_peft = PeftModel.from_pretrained(make_stack(), tmp_path, autocast_adapter_dtype=False)
    assert torch.equal(by_peft(INPUT), adapted(INPUT))
    again = read_adapter(tmp_path)
    assert again["weights"].keys() == stored["weights"].keys()
    assert all(torch.equal(again["weights"][name], value) for name, value in stored["weights"].items())
    assert {**again, "weights": {}} == {**stored, "weights": {}}


def test_patterns_choose_layers_and_a_mistyped_one_is_told_what_there_is() -> None:
    network = make_stack()
    usual = ["layers.0.mix", "layers.0.conv", "layers.1.mix", "layers.1.conv"]
    assert choose_targets(network, None) == usual
    assert choose_targets(network, ("mix",)) == ["layers.0.mix", "layers.1.mix"]
    assert choose_targets(network, ("head", "layers.1.*")) == ["layers.1.mix", "layers.1.conv", "head"]
    with pytest.raises(ConfigError, match=r"'\*\.mxi'.*did you mean 'mix'.*layers\.\*\.mix, layers\.\*\.conv, head"):
        choose_targets(network, ("*.mxi",))
    with pytest.raises(ConfigError, match="head"):
        choose_targets(nn.ModuleDict({"head": nn.Linear(2, 2)}), None)


def test_only_chosen_layers_are_changed_although_others_end_alike() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Linear(2, 2)
            self.layers = nn.ModuleList([nn.ModuleDict({"mix": nn.Linear(2, 2)})])

    network = Twice()
    attached = attach(network, Lora(rank=1, targets=("mix",)), base_of(network))
    assert attached.layers == ("mix", "layers.0.mix")
    one = Twice()
    attach(one, Lora(rank=1, targets=("layers.*",)), base_of(one))
    assert isinstance(one.mix, nn.Linear)
