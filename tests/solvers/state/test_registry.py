"""What is registered is described, restored and swapped to the last bit; what does not fit is named."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from solfa.errors import ConfigError, StoreError
from solfa.models.conditioners.labels import LabelConditioner, LabelsConfig
from solfa.solvers.fabric.wrappers import unwrapped
from solfa.solvers.state.registry import Registry, check_modules, load_state, state_of
from solfa.xp.state_file import load_module


class Counter:
    """Anything with a state."""

    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def net(seed: int = 0, width: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width))


def bits(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    """Compare to the last bit, where a NaN is a value like any other."""
    return left.keys() == right.keys() and all(
        left[name].numpy().tobytes() == right[name].numpy().tobytes() for name in left
    )


@pytest.fixture
def solver() -> SimpleNamespace:
    module = net()
    return SimpleNamespace(
        model=module, other=net(5), optimizer=torch.optim.AdamW(module.parameters()), counter=Counter(), seen=0
    )


@pytest.fixture
def registry(solver: SimpleNamespace) -> Registry:
    return Registry(lambda name: getattr(solver, name), lambda name, value: setattr(solver, name, value))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda state: state.pop("0.weight"), r"^model\.0\.weight: missing .*checkpoint"),
        (lambda state: state.update({"2.bias": torch.zeros(3)}), r"^model\.2\.bias: missing .*model"),
        (
            lambda state: state.update({"0.weight": torch.zeros(4, 3)}),
            r"^model\.0\.weight: .*\(3, 3\), found \(4, 3\)",
        ),
    ],
    ids=["missing", "unexpected", "mismatched"],
)
def test_weights_that_do_not_fit_are_named(change: Any, told: str) -> None:
    state = bits(net(1))
    change(state)
    with pytest.raises(StoreError, match=told):
        load_module("model", net(), state)


def test_weights_that_fit_are_loaded_with_their_buffers() -> None:
    there, here = net(1), net()
    there(torch.randn(8, 3))
    load_module("model", here, there.state_dict())
    assert same(bits(here), bits(there))


def test_labels_learnt_from_data_that_is_gone_come_with_the_weights() -> None:
    config = LabelsConfig(kind="labels", source="genre")
    trained, fresh = (nn.Sequential(LabelConditioner(config, 4)) for _ in range(2))
    trained[0].fit(["jazz", "folk"])
    load_module("model", fresh, trained.state_dict())
    tokens = trained[0].tokenize(["jazz"])
    assert torch.equal(fresh[0].tokenize(["jazz"])["rows"], tokens["rows"])
    assert torch.equal(fresh[0].embed(tokens).embedding, trained[0].embed(tokens).embedding)


def test_swapped_states_are_in_place_inside_and_the_very_bits_come_back(
    registry: Registry, solver: SimpleNamespace
) -> None:
    with torch.no_grad():
        solver.model[0].weight[0, 0] = torch.nan
        solver.model[0].bias[0] = -0.0
    before, other = bits(solver.model), bits(net(7))
    parameters = list(solver.model.parameters())
    with registry.swapped({"model": other}):
        assert same(bits(solver.model), other)
        solver.model(torch.randn(4, 3))
    assert same(bits(solver.model), before)
    assert all(left is right for left, right in zip(solver.model.parameters(), parameters, strict=True))


def test_the_old_bits_come_back_after_an_exception(registry: Registry, solver: SimpleNamespace) -> None:
    before = bits(solver.model)
    with pytest.raises(KeyError), registry.swapped({"model": bits(net(7))}):
        raise KeyError
    assert same(bits(solver.model), before)


def test_states_of_which_one_does_not_fit_change_nothing(registry: Registry, solver: SimpleNamespace) -> None:
    before = bits(solver.model), bits(solver.other)
    with (
        pytest.raises(StoreError, match=r"^other\.0\.weight"),
        registry.swapped({"model": bits(net(7)), "other": bits(net(7, width=4))}),
    ):
        pytest.fail("the body must not run")
    assert same(bits(solver.model), before[0]) and same(bits(solver.other), before[1])


def test_attributes_are_noted_once_and_must_exist(registry: Registry) -> None:
    registry.add(registry.stateful, "model", "optimizer")
    registry.add(registry.stateful, "model")
    assert registry.stateful == ["model", "optimizer"]
    with pytest.raises(AttributeError):
        registry.add(registry.best, "nothing")
    assert registry.best == []


def test_attributes_are_sorted_by_what_they_are(registry: Registry, solver: SimpleNamespace) -> None:
    registry.add(registry.stateful, "model", "counter", "optimizer", "seen")
    assert registry.modules == {"model": solver.model}
    assert registry.optimizers == {"optimizer": solver.optimizer}
    fabric = Fabric(accelerator="cpu", devices=1)
    solver.model, solver.optimizer = fabric.setup(solver.model, solver.optimizer)
    assert set(registry.modules) == {"model"} and set(registry.optimizers) == {"optimizer"}


def test_states_of_every_kind_go_out_and_in_again(registry: Registry, solver: SimpleNamespace) -> None:
    registry.add(registry.stateful, "model", "optimizer", "counter", "seen")
    solver.model(torch.randn(4, 3)).square().sum().backward()
    solver.optimizer.step()
    solver.counter.count, solver.seen = 3, 9
    states = registry.states()
    assert (states["counter"], states["seen"]) == ({"count": 3}, 9)
    fresh = net(3)
    values = {"model": fresh, "optimizer": torch.optim.AdamW(fresh.parameters()), "counter": Counter(), "seen": 0}
    loaded = {name: load_state(name, value, states[name]) for name, value in values.items()}
    assert same(bits(fresh), bits(solver.model))
    assert loaded["optimizer"] is values["optimizer"] and len(loaded["optimizer"].state) == 4
    assert (loaded["counter"].count, loaded["seen"]) == (3, 9)


def test_a_module_spread_over_devices_is_described_as_it_was_built() -> None:
    module = net()
    wrapped = Fabric(accelerator="cpu", devices=1).setup_module(module)
    assert unwrapped(wrapped) is module and unwrapped(module) is module
    assert state_of(wrapped).keys() == module.state_dict().keys()


def test_best_states_are_those_of_what_was_registered(registry: Registry, solver: SimpleNamespace) -> None:
    registry.add(registry.stateful, "model", "other")
    registry.add(registry.best, "other")
    assert registry.best_states().keys() == {"other"}
    assert same(dict(registry.best_states()["other"]), bits(solver.other))


def test_only_modules_are_averaged_or_remembered(solver: SimpleNamespace) -> None:
    def value(name: str) -> Any:
        return getattr(solver, name)

    check_modules(["model"], value, "ema")
    with pytest.raises(ConfigError, match=r"register_ema\('counter'\): .*module, found Counter"):
        check_modules(["model", "counter"], value, "ema")


def test_all_that_is_registered_is_restored_and_plain_values_are_replaced(
    registry: Registry, solver: SimpleNamespace
) -> None:
    registry.add(registry.stateful, "model", "counter", "seen")
    states = {"model": bits(net(9)), "counter": {"count": 3}, "seen": 7}
    registry.load(states)
    assert same(bits(solver.model), states["model"]) and (solver.counter.count, solver.seen) == (3, 7)
    registry.load({"counter": {"count": 4}}, ["counter"])
    assert solver.counter.count == 4
    with pytest.raises(ConfigError, match="no 'model'"):
        registry.load({})
