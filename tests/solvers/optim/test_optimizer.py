"""The optimiser holds every trained parameter once, with the learning rate and weight decay that the rules say."""

import pytest
import torch
from torch import nn

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.solvers.optim.optimizer import SGD, Adam, AdamW, OptimConfig, build_optimizer, is_fusible
from solfa.solvers.optim.parameter_groups import ParameterGroup


class Net(nn.Module):
    """A bit of everything: embedding, norms, biases, a frozen part, options on tensors, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.attention = nn.MultiheadAttention(4, 2)
        self.norm = nn.LayerNorm(4)
        self.rms = nn.RMSNorm(4)
        self.convolution = nn.Sequential(nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4), nn.GroupNorm(2, 4))
        self.recurrent = nn.LSTM(4, 4)
        self.log_dt = nn.Parameter(torch.zeros(4))
        self.state = nn.Parameter(torch.zeros(4, 4))
        self.state._no_weight_decay = True
        self.fast = nn.Parameter(torch.zeros(4))
        self.fast._optim = {"lr": 0.5, "weight_decay": 0.0}
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight


def config(**fields) -> OptimConfig:
    return OptimConfig(epochs=1, **{"optimizer": AdamW(lr=0.1, weight_decay=0.2), **fields})


def treatment(optimizer: torch.optim.Optimizer, module: nn.Module) -> dict[str, tuple[float, float]]:
    """Learning rate and weight decay by parameter name, through the identity of the tensors."""
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    return {
        names[id(parameter)]: (group["lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for parameter in group["params"]
    }


def test_every_trained_parameter_is_in_exactly_one_group_and_frozen_ones_in_none():
    net = Net()
    optimizer = build_optimizer(net, config(groups=(ParameterGroup(pattern="recurrent.*", lr_scale=0.5),)))
    held = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert len(held) == len(set(held))
    assert set(held) == {id(parameter) for parameter in net.parameters() if parameter.requires_grad}
    names = [group["name"] for group in optimizer.param_groups]
    assert len(set(names)) == len(names) and "recurrent.*" in names


def test_norms_biases_and_state_space_parameters_do_not_decay_and_the_rest_does():
    found = treatment(build_optimizer(net := Net(), config()), net)
    decays = {name: decay for name, (_, decay) in found.items()}
    decaying = {name for name, decay in decays.items() if decay == 0.2}
    assert decaying == {
        "embedding.weight",
        "attention.in_proj_weight",
        "attention.out_proj.weight",
        "convolution.0.weight",
        "recurrent.weight_ih_l0",
        "recurrent.weight_hh_l0",
    }
    assert all(decay == 0.0 for name, decay in decays.items() if name not in decaying)


def test_norms_of_other_libraries_are_found_by_the_name_of_their_type():
    class LlamaRMSNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

    net = nn.Sequential(nn.Linear(4, 4), LlamaRMSNorm())
    assert treatment(build_optimizer(net, config()), net)["1.weight"] == (0.1, 0.0)


def test_a_bias_that_stands_alone_does_not_decay():
    layer = nn.Linear(2, 2)
    assert treatment(build_optimizer(layer, config()), layer) == {"weight": (0.1, 0.2), "bias": (0.1, 0.0)}


def test_options_attached_to_a_tensor_are_honoured_and_scaled_by_its_group():
    net = Net()
    assert treatment(build_optimizer(net, config()), net)["fast"] == (0.5, 0.0)
    scaled = config(groups=(ParameterGroup(pattern="fast", lr_scale=0.5),))
    assert treatment(build_optimizer(net, scaled), net)["fast"] == (0.25, 0.0)
    net.fast._optim = {"weight_decay": 0.7}
    assert treatment(build_optimizer(net, config()), net)["fast"] == (0.1, 0.7)


def test_an_option_on_a_tensor_that_nobody_would_honour_is_refused():
    net = Net()
    net.fast._optim = {"learning_rate": 1.0}
    with pytest.raises(ConfigError, match=r"^fast: .*'learning_rate'.* only lr and weight_decay"):
        build_optimizer(net, config())


def test_the_first_group_that_matches_wins_and_does_not_make_biases_decay():
    groups = (
        ParameterGroup(pattern="recurrent.weight_ih*", lr_scale=2.0),
        ParameterGroup(pattern="recurrent.*", lr_scale=3.0, weight_decay=0.9),
    )
    found = treatment(build_optimizer(net := Net(), config(groups=groups)), net)
    assert found["recurrent.weight_ih_l0"] == (pytest.approx(0.2), 0.2)
    assert found["recurrent.weight_hh_l0"] == (pytest.approx(0.3), 0.9)
    assert found["recurrent.bias_hh_l0"] == (pytest.approx(0.3), 0.0)
    assert found["embedding.weight"] == (0.1, 0.2)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            [{"pattern": "recurent.*"}],
            r"'recurent.\*' matches none .*did you mean 'recurrent.\*'",
        ),
        ([{"pattern": "zzz"}], "'zzz' matches none .*'log_dt', 'state', 'fast'"),
        ([{"pattern": "frozen.*"}], r"'frozen\.\*' .*frozen parameters"),
        ([{"pattern": "*"}, {"pattern": "norm.*"}], r"'norm\.\*' .*earlier group.*narrower"),
        ([{"pattern": "state"}, {"pattern": "state", "lr_scale": 2.0}], "'state' .*earlier group"),
        ([{"pattern": "norm.*", "weight_decay": 0.1}], r"weight_decay 0\.1 .*'norm\.\*'.*remove"),
    ],
)
def test_a_group_that_would_change_nothing_is_refused(groups, message):
    with pytest.raises(ConfigError, match=message):
        build_optimizer(Net(), config(groups=tuple(ParameterGroup(**group) for group in groups)))


def test_own_names_without_decay_replace_the_defaults_and_must_exist():
    found = treatment(build_optimizer(net := Net(), config(no_decay=("embedding.*",))), net)
    assert found["embedding.weight"] == (0.1, 0.0) and found["attention.out_proj.bias"] == (0.1, 0.2)
    with pytest.raises(ConfigError, match=r"optim.no_decay: 'embeding.\*' .* did you mean 'embedding.\*'"):
        build_optimizer(Net(), config(no_decay=("embeding.*",)))


def test_several_modules_are_told_apart_by_their_names_and_share_parameters_once():
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    two.bias = one.bias
    groups = (ParameterGroup(pattern="two.*", lr_scale=10.0),)
    optimizer = build_optimizer({"one": one, "two": two}, config(groups=groups))
    assert {group["name"]: group["param_names"] for group in optimizer.param_groups} == {
        "default": ["one.weight"],
        "default, no decay": ["one.bias"],
        "two.*": ["two.weight"],
    }


def test_named_parameters_are_grouped_like_their_module_except_for_its_types():
    net = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    found = treatment(build_optimizer(net.named_parameters(), config()), net)
    assert found == {"0.weight": (0.1, 0.2), "0.bias": (0.1, 0.0), "1.weight": (0.1, 0.2), "1.bias": (0.1, 0.0)}


def test_plain_parameters_work_without_patterns_and_are_refused_with_them():
    net = Net()
    found = treatment(build_optimizer(net.parameters(), config()), net)
    assert found["norm.bias"] == (0.1, 0.2) and found["fast"] == (0.5, 0.0) and "frozen.weight" not in found
    with pytest.raises(ConfigError, match=r"'norm.\*' .*named_parameters"):
        build_optimizer(net.parameters(), config(groups=(ParameterGroup(pattern="norm.*"),)))


def test_a_model_that_is_wholly_frozen_is_refused():
    with pytest.raises(ConfigError, match="none of the 2 parameters requires a gradient"):
        build_optimizer(nn.Linear(2, 2).requires_grad_(False), config())


@pytest.mark.parametrize(
    ("rule", "reference"),
    [
        (AdamW(lr=0.1, weight_decay=0.2), lambda p: torch.optim.AdamW(p, 0.1, (0.9, 0.95), 1e-8, 0.2)),
        (Adam(lr=0.1, weight_decay=0.2), lambda p: torch.optim.Adam(p, 0.1, (0.9, 0.999), 1e-8, 0.2)),
        (SGD(lr=0.1, momentum=0.8, weight_decay=0.2), lambda p: torch.optim.SGD(p, 0.1, 0.8, 0.0, 0.2)),
    ],
)
@pytest.mark.parametrize("fused", [True, False])
def test_updates_equal_those_of_torch(rule, reference, fused):
    torch.manual_seed(0)
    mine, theirs = (nn.Parameter(torch.arange(6.0)) for _ in range(2))
    optimizer = build_optimizer([mine], config(optimizer=rule.model_copy(update={"fused": fused})))
    assert optimizer.param_groups[0]["fused"] is fused
    other = reference([theirs])
    for _ in range(5):
        gradient = torch.randn(6)
        mine.grad, theirs.grad = gradient.clone(), gradient.clone()
        optimizer.step()
        other.step()
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    assert not torch.equal(mine, torch.arange(6.0))


def test_kernels_are_fused_only_where_torch_can():
    assert is_fusible([nn.Parameter(torch.zeros(2))])
    assert not is_fusible([nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2, dtype=torch.complex64))])
    assert not is_fusible([nn.Parameter(torch.zeros(2, device="meta"))])
    complex_one = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    optimizer = build_optimizer([complex_one], config())
    complex_one.grad = torch.ones_like(complex_one)
    optimizer.step()
    assert not torch.equal(complex_one, torch.ones(2, dtype=torch.complex64))


def test_a_yaml_tree_becomes_a_config_and_a_wrong_kind_or_key_is_named():
    values = {
        "epochs": 3,
        "updates_per_epoch": 7,
        "optimizer": {"kind": "sgd", "lr": 0.1},
        "schedule": {"kind": "cosine", "warmup_updates": 2},
        "groups": [{"pattern": "*.bias", "lr_scale": 2.0}],
        "ema": {"decay": 0.9},
    }
    parsed = parse_config(OptimConfig, values, "optim")
    assert parsed.total_updates == 21 and isinstance(parsed.optimizer, SGD)
    with pytest.raises(ConfigError, match="'lion'"):
        parse_config(OptimConfig, {"epochs": 1, "optimizer": {"kind": "lion"}}, "optim")
    with pytest.raises(ConfigError, match=r"betaz: .*did you mean 'betas'"):
        parse_config(OptimConfig, {"epochs": 1, "optimizer": {"kind": "adamw", "betaz": (0, 0)}}, "optim")
