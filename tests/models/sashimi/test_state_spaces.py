"""Checkpoints of state-spaces: the numbers of the network they come from, every tensor used, all others refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from solfa.errors import ConfigError
from solfa.models.sashimi.network import Sashimi, previous_classes
from solfa.models.sashimi.state_spaces import LoadedStateSpaces, convert, load_state_spaces
from tests.models.sashimi.state_spaces_network import Network, Original, random_state

VARIANTS: dict[str, dict[str, Any]] = {
    "tied, gated": {},
    "not gated": {"glu": False},
    "a system per channel": {"n_ssm": None},
    "systems shared by some channels": {"n_ssm": 2},
    "bilinear": {"layer": {"disc": "bilinear"}},
    "a step per mode": {"dt_per_mode": True},
    "exponentials": {"layer": {"dt_transform": "exp", "real_transform": "softplus", "imag_transform": "exp"}},
    "other transforms": {"layer": {"real_transform": "sigmoid", "dt_transform": "relu"}, "n_ssm": None},
    "layers before the pools": {"unet": True},
    "its other U-Net": {"unet": True, "flat": True, "n_ssm": None},
    "standalone": {"standalone": True},
    "standalone U-Net": {"standalone": True, "unet": True},
    "minimal S4D": {"minimal": True, "n_ssm": None},
    "no pools": {"pool": ()},
    "more than ten layers": {"n_layers": 6, "pool": (2,), "modes": 1},
}


def save(path: Path, net: Original, state: dict[str, Tensor], settings: dict[str, Any] | None = None) -> Path:
    torch.save({"state_dict": state, "hyper_parameters": settings or net.settings, "epoch": 7}, path)
    return path


def load_random(folder: Path, net: Original) -> tuple[LoadedStateSpaces, Sashimi, Network]:
    state = random_state(net)
    loaded = load_state_spaces(save(folder / "loss.ckpt", net, state), torch.float64)
    model = Sashimi(loaded.config, 1 << net.bits).double().eval()
    model.load_state_dict(loaded.state)
    return loaded, model, Network(net, state)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@torch.no_grad()
def test_outputs_are_those_of_the_original(tmp_path: Path, variant: dict[str, Any]) -> None:
    net = Original(**variant)
    loaded, model, original = load_random(tmp_path, net)
    classes = torch.randint(0, 1 << net.bits, (2, 36), generator=torch.Generator().manual_seed(1))
    expected = original(classes)
    assert expected.abs().amax(dim=(0, 2)).min() > 0.1
    # Both compute in float64, in other orders; products of a system's modes lose a few digits.
    torch.testing.assert_close(model(classes), expected, rtol=0, atol=1e-10)
    assert loaded.num_tensors == len(original.state)
    assert loaded.codec == "mulaw:bits=4,sample_rate=16000"


@torch.no_grad()
def test_a_clip_starts_as_after_the_class_of_silence(tmp_path: Path) -> None:
    _, model, original = load_random(tmp_path, Original())
    classes = torch.randint(0, 16, (2, 36), generator=torch.Generator().manual_seed(2))
    begun = torch.cat([torch.full((2, 1), 8), classes[:, :-1]], dim=1)
    inputs = previous_classes(classes, model.start(2))
    torch.testing.assert_close(model(inputs), original(begun), rtol=0, atol=1e-10)


@torch.no_grad()
def test_in_float32_it_is_as_close_as_float32_can_be(tmp_path: Path) -> None:
    net = Original()
    state = random_state(net)
    loaded = load_state_spaces(save(tmp_path / "loss.ckpt", net, state))
    model = Sashimi(loaded.config, 16).eval()
    model.load_state_dict(loaded.state)
    classes = torch.randint(0, 16, (2, 36), generator=torch.Generator().manual_seed(1))
    assert (model(classes).double() - Network(net, state)(classes)).abs().max() < 1e-5


def test_settings_are_found_in_the_folder_of_the_run(tmp_path: Path) -> None:
    net, weights = Original(layer={"disc": "bilinear"}), tmp_path / "run/checkpoints/val/loss.pt"
    weights.parent.mkdir(parents=True)
    torch.save(random_state(net), weights)
    with pytest.raises(ConfigError, match=r"loss\.pt: .*settings.*\.hydra/config\.yaml.*found neither"):
        load_state_spaces(weights)
    (tmp_path / "run/.hydra").mkdir()
    (tmp_path / "run/.hydra/config.yaml").write_text(yaml.safe_dump(net.settings))
    inside = load_state_spaces(save(tmp_path / "whole.ckpt", net, random_state(net)))
    found = load_state_spaces(weights)
    assert found.config == inside.config and found.config.tie == "per_channel"
    assert all(torch.equal(found.state[name], inside.state[name]) for name in inside.state)
    (tmp_path / "run/.hydra/config.yaml").write_text("{")
    with pytest.raises(ConfigError, match="as YAML"):
        load_state_spaces(weights)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda state: state | {"model.extra": torch.ones(1)}, r"unexpected model\.extra"),
        (lambda state: {k: v for k, v in state.items() if k != "model.norm.bias"}, r"missing model\.norm\.bias"),
        (lambda state: state | {"model.norm.bias": torch.ones(5)}, r"wrong shape model\.norm\.bias \[5\]"),
        (lambda state: state | {"model.c_layers.0.layer.layer.kernel.P": torch.ones(1)}, "low-rank.*s4d"),
        (lambda state: {k.replace("kernel.", "kernel.kernel."): v for k, v in state.items()}, "version 3.*convert"),
        (lambda state: {k: v for k, v in state.items() if "ff" not in k}, "feed-forward layer.*found none"),
        (lambda state: {k: v for k, v in state.items() if "output_linear" not in k}, "mixes channels.*found none"),
        (lambda state: {k: v for k, v in state.items() if "d_layers.1" not in k}, "1 and 2 pools"),
        (lambda state: {k: v for k, v in state.items() if "encoder" not in k}, "encoder.*found none"),
        (lambda state: state | {"decoder.0.0.output_transform.weight": torch.ones(30, 4)}, "classes.*found 16 and 30"),
        (lambda state: state | {"model.output_head.means.weight": torch.ones(10, 4)}, "logit per class, found another"),
        (lambda state: {"model.lstm.weight": torch.ones(1)}, r"found others \(model\.lstm"),
        (lambda state: state | {"model.c_layers.0.layer.layer.D": torch.full((1, 16), torch.nan)}, "not finite"),
    ],
)  # fmt: skip
def test_every_tensor_is_accounted_for(tmp_path: Path, change: Any, told: str) -> None:
    net = Original()
    path = save(tmp_path / "loss.ckpt", net, change(random_state(net)))
    with pytest.raises(ConfigError, match=rf"loss\.ckpt: .*{told}") as error:
        load_state_spaces(path)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_tensor_that_is_gone_or_of_another_shape_never_goes_unnoticed() -> None:
    net = Original(n_layers=1, pool=(2,))
    state = random_state(net)
    convert(state, net.settings, "here")
    for name, tensor in state.items():
        rest = {other: state[other] for other in state if other != name}
        for changed in (rest, {**rest, name: torch.tensor(1.0)}, {**rest, name: tensor[:0]}):
            with pytest.raises(ConfigError, match=r"^here: "):
                convert(changed, net.settings, "here")


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        *(("layer", "mode", value) for value in ("nplr", "dplr", "real")),
        *(("layer", "final_act", value) for value in (None, "gelu", "glu-silu")),
        ("layer", "disc", "dss"),
        ("layer", "bidirectional", True),
        ("layer", "channels", 2),
        ("layer", "gate", 4),
        ("layer", "activation", "relu"),
        ("layer", "bandlimit", 0.5),
        ("layer", "l_max", 16000),
        ("layer", "postact", "tanh"),
        ("model", "prenorm", False),
        ("model", "residual", "H"),
        ("model", "norm", "batch"),
        ("model", "interp", 2),
        ("model", "center_layer", "mha"),
        ("decoder", "mode", "pool"),
    ],
)
def test_settings_without_a_counterpart_are_refused_by_name(tmp_path: Path, place: str, key: str, value: Any) -> None:
    net = Original()
    settings = net.settings
    settings["decoder"] = {"_name_": "sequence", "mode": "last"}
    (settings["model"]["layer"] if place == "layer" else settings[place])[key] = value
    shown = "final_act" if key == "postact" else key
    with pytest.raises(ConfigError, match=rf"no counterpart.*\.{shown} .*found {value}; .*mode diag"):
        load_state_spaces(save(tmp_path / "loss.ckpt", net, random_state(net), settings))
