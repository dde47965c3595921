"""What is saved of a model: what was trained, and to which base and donor it belongs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from solfa.errors import ConfigError, StoreError
from solfa.models.mot.assembly import build_mot
from solfa.models.mot.network import MoT
from solfa.solvers.state.registry import load_module, state_of
from tests.models.mot.tiny_mot import (
    KINDS,
    LAYOUTS,
    V,
    fresh_base,
    make_codes,
    make_mot,
    name_of,
    prefix_of,
    read_donor,
    shake,
    write_donor,
)

each_kind = pytest.mark.parametrize("kinds", KINDS, ids=name_of)


def logits(model: MoT) -> Tensor:
    torch.manual_seed(11)
    with torch.no_grad():
        found: Tensor = model(*make_codes(), prefix_of(model))
    return found


def saved(model: MoT, path: Path) -> dict[str, Any]:
    torch.save(model.state_dict(), path)
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state


@each_kind
@pytest.mark.parametrize("train_donor", [False, True])
def test_the_state_is_what_is_trained_and_whose_it_is(
    kinds: tuple[Any, Any], train_donor: bool, base: Path, donor: Path
) -> None:
    model = make_mot(base, donor, attention=kinds[0], ffn=kinds[1], train_donor=train_donor)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    state = model.state_dict()
    assert set(state) == trained | {"_extra_state"} and model.report.trained == trained
    assert state["_extra_state"] == {
        "base": fresh_base(base).fingerprint,
        "donor": read_donor(donor).fingerprint,
    }
    donated = {name for name in trained if name.endswith((".fc1.weight", ".fc2.weight", ".tables.0.weight", "heads"))}
    assert bool(donated) == train_donor
    theirs = {parameter.data_ptr() for parameter in model.base.model.parameters()}
    assert not theirs & {value.data_ptr() for value in state.values() if isinstance(value, Tensor)}


@each_kind
def test_a_fresh_model_with_the_saved_weights_has_equal_logits(
    kinds: tuple[Any, Any], base: Path, donor: Path, tmp_path: Path
) -> None:
    settings = {"attention": kinds[0], "ffn": kinds[1]}
    model, fresh = make_mot(base, donor, **settings), make_mot(base, donor, shaken=False, **settings)
    shake(fresh, 0.5)
    expected = logits(model)
    assert not torch.allclose(logits(fresh), expected, atol=1e-2)
    fresh.load_state_dict(saved(model, tmp_path / "state.pt"))
    assert torch.equal(logits(fresh), expected)


@pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
def test_the_registry_of_a_solver_keeps_it(layout: dict[str, Any], base: Path, donor: Path) -> None:
    model, fresh = make_mot(base, donor, layout=layout), make_mot(base, donor, layout=layout, shaken=False)
    load_module("model", fresh, state_of(model))
    assert torch.equal(logits(fresh), logits(model))


def test_inside_another_module_it_is_saved_the_same_way(base: Path, donor: Path) -> None:
    def outer(shaken: bool) -> nn.ModuleDict:
        return nn.ModuleDict({"mot": make_mot(base, donor, shaken=shaken), "other": nn.Linear(2, 2)})

    first, second = outer(True), outer(False)
    assert set(first.state_dict()) - {"other.weight", "other.bias"} == {
        f"mot.{name}" for name in first["mot"].state_dict()
    }
    second.load_state_dict(first.state_dict())
    assert torch.equal(logits(second["mot"]), logits(first["mot"]))
    incomplete = {name: value for name, value in first.state_dict().items() if name != "other.bias"}
    with pytest.raises(RuntimeError, match=r"Missing key.*other\.bias"):
        second.load_state_dict(incomplete)


def test_another_base_or_donor_is_refused_with_both_named(
    base: Path, other_base: Path, donor: Path, tmp_path: Path
) -> None:
    other_donor = write_donor(tmp_path / "other", num_hidden_layers=2)
    state = make_mot(base, donor).state_dict()
    known, other = fresh_base(base).fingerprint[:12], fresh_base(other_base).fingerprint[:12]
    model = make_mot(other_base, donor)
    before = logits(model)
    with pytest.raises(ConfigError, match=rf"^model\.base: .* base {known}, found {other}; .*checkpoint"):
        model.load_state_dict(state)
    assert torch.equal(logits(model), before), "nothing was loaded"
    known, other = read_donor(donor).fingerprint[:12], read_donor(other_donor).fingerprint[:12]
    with pytest.raises(ConfigError, match=rf"^model\.donor: .* donor {known}, found {other};"):
        make_mot(base, other_donor).load_state_dict(state)
    with pytest.raises(ConfigError, match=rf"^model\.donor: .* donor {known}, found none;"):
        load_module("model", make_mot(base, layout=LAYOUTS[3]), make_mot(base, donor, layout=LAYOUTS[3]).state_dict())


@pytest.mark.parametrize("forgotten", ["norm.weight", "layers.1.ffn.up.weight", "_extra_state"])
def test_a_state_without_something_that_was_trained_is_refused(forgotten: str, base: Path, donor: Path) -> None:
    model = make_mot(base, donor)
    state = {name: value for name, value in model.state_dict().items() if name != forgotten}
    with pytest.raises(RuntimeError, match=f"Missing key.*{forgotten}"):
        model.load_state_dict(state)
    with pytest.raises(StoreError, match=rf"^model\.{forgotten}: missing .*checkpoint"):
        load_module("model", model, state)


def test_a_trained_donor_is_not_lost_in_a_model_that_freezes_it(base: Path, donor: Path) -> None:
    trained, frozen = make_mot(base, donor, train_donor=True), make_mot(base, donor)
    before = logits(frozen)
    with pytest.raises(ConfigError, match=r"^model\.train_donor: .*frozen.*true"):
        frozen.load_state_dict(trained.state_dict())
    assert torch.equal(logits(frozen), before)
    with pytest.raises(StoreError, match=r"missing .*checkpoint"):
        load_module("model", trained, frozen.state_dict())


def test_frozen_parts_of_a_donor_are_not_parameters_that_are_trained(base: Path, donor: Path) -> None:
    model = make_mot(base, donor)
    names = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    layers = {
        f"layers.{i}.ffn.{part}" for i in range(3) for part in ("norm.weight", "norm.bias", "fc1.weight", "fc2.weight")
    }
    assert names == layers | {f"vocabulary.tables.tables.{k}.weight" for k in range(3)} | {"vocabulary.heads"}
    assert model.report.num_frozen == sum(model.get_parameter(name).numel() for name in names)
    everything = make_mot(base, donor, train_donor=True)
    assert all(parameter.requires_grad for parameter in everything.parameters()) and everything.report.num_frozen == 0


FRESH = """
import sys, torch
from pathlib import Path
from solfa.config import parse_config
from solfa.models.mot.assembly import build_mot
from solfa.models.mot.config import MoTConfig
from solfa.models.mot.prefix import join_texts
folder = Path(sys.argv[1])
request = torch.load(folder / "request.pt", weights_only=True)
torch.set_num_threads(1)
model = build_mot(parse_config(MoTConfig, request["config"], "model"))
model.load_state_dict(torch.load(folder / "state.pt", weights_only=True))
prefix = join_texts([model.base.keys_and_values(text) for text in request["texts"]])
codes = request["codes"]
with torch.no_grad():
    logits = model(codes, torch.ones_like(codes[:, 0], dtype=torch.bool), prefix)
torch.save(logits, folder / "logits.pt")
"""


@pytest.mark.slow
def test_a_fresh_process_has_equal_logits(base: Path, donor: Path, tmp_path: Path) -> None:
    model = build_mot(make_mot(base, donor).config)
    shake(model)
    torch.save(model.state_dict(), tmp_path / "state.pt")
    texts, codes = [[1, 70, 71], [1]], torch.randint(0, V, (2, 3, 5))
    config = {**model.config.model_dump(include={"base", "donor", "num_codebooks", "codebook_size"})}
    torch.save({"config": config, "texts": texts, "codes": codes}, tmp_path / "request.pt")
    subprocess.run([sys.executable, "-c", FRESH, str(tmp_path)], check=True, timeout=300)
    with torch.no_grad():
        expected = model(codes, torch.ones(2, 5, dtype=torch.bool), prefix_of(model, texts))
    assert torch.equal(torch.load(tmp_path / "logits.pt", weights_only=True), expected)
