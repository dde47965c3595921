"""Codec directories: what is written comes back, and what does not fit is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from solfa.errors import ConfigError
from solfa.models.codec.bottlenecks import BottleneckConfig
from solfa.models.codec.codec_files import load_codec_model, save_codec_model
from solfa.version import __version__
from tests.models.codec.tiny_codec import BOTTLENECKS, tiny_model


@pytest.mark.parametrize("bottleneck", BOTTLENECKS)
def test_a_saved_model_comes_back_bit_for_bit(bottleneck: BottleneckConfig, tmp_path: Path) -> None:
    model, audio = tiny_model(bottleneck), torch.randn(1, 1, 500)
    save_codec_model(model, tmp_path / "codec")
    loaded = load_codec_model(tmp_path / "codec")
    assert loaded.config == model.config and not loaded.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    with torch.no_grad():
        assert torch.equal(loaded(audio).audio, model(audio).audio)


def test_config_says_what_it_is_and_who_wrote_it(tmp_path: Path) -> None:
    save_codec_model(tiny_model(), tmp_path / "codec")
    assert sorted(path.name for path in (tmp_path / "codec").iterdir()) == ["config.json", "model.safetensors"]
    written = json.loads((tmp_path / "codec" / "config.json").read_text())
    assert (written["model_type"], written["format_version"]) == ("solfa_codec", 1)
    assert written["solfa_version"] == __version__ and written["model"]["sample_rate"] == 8000


def test_half_precision_halves_the_file_and_loads_as_float32(tmp_path: Path) -> None:
    model = tiny_model(dim=32, num_filters=16)
    model.bottleneck.quantizer.counts.fill_(1e6)
    save_codec_model(model, tmp_path / "whole")
    save_codec_model(model, tmp_path / "half", half=True)
    sizes = {name: (tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half")}
    assert sizes["half"] < 0.6 * sizes["whole"]
    loaded = load_codec_model(tmp_path / "half")
    for name, tensor in model.state_dict().items():
        assert loaded.state_dict()[name].dtype == tensor.dtype
        assert torch.allclose(loaded.state_dict()[name].float(), tensor.float(), rtol=1e-3, atol=1e-6), name


def test_loading_leaves_the_random_state_alone(tmp_path: Path) -> None:
    save_codec_model(tiny_model(), tmp_path / "codec")
    before = torch.get_rng_state()
    load_codec_model(tmp_path / "codec")
    assert torch.equal(torch.get_rng_state(), before)


def test_an_existing_directory_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "codec").mkdir()
    with pytest.raises(ConfigError, match="already exists"):
        save_codec_model(tiny_model(), tmp_path / "codec")
    assert list(tmp_path.rglob("*")) == [tmp_path / "codec"]


def drop(tensors: dict[str, Tensor]) -> None:
    del tensors["bottleneck.quantizer.codebooks"]


def add(tensors: dict[str, Tensor]) -> None:
    tensors["encoder.layers.99.conv.bias"] = torch.zeros(2)


def cut(tensors: dict[str, Tensor]) -> None:
    tensors["decoder.layers.0.conv.bias"] = tensors["decoder.layers.0.conv.bias"][:-1].clone()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (drop, r"missing bottleneck\.quantizer\.codebooks"),
        (add, r"unexpected encoder\.layers\.99\.conv\.bias"),
        (cut, r"shape decoder\.layers\.0\.conv\.bias \[31\] instead of \[32\]"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(
    change: Callable[[dict[str, Tensor]], None], fault: str, tmp_path: Path
) -> None:
    save_codec_model(tiny_model(), tmp_path / "codec")
    weights = tmp_path / "codec" / "model.safetensors"
    tensors = load_file(weights)
    change(tensors)
    save_file(tensors, weights)
    with pytest.raises(ConfigError, match=fault):
        load_codec_model(tmp_path / "codec")


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"model_type": "encodec"}, "model_type solfa_codec .*found 'encodec'"),
        ({"format_version": 2}, "format_version 1 .*found 2"),
        ({"model": None}, "model .*found None"),
        ({"model": {"sample_rat": 8000}}, "sample_rat: .*did you mean 'sample_rate'"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(changes: dict[str, Any], fault: str, tmp_path: Path) -> None:
    save_codec_model(tiny_model(), tmp_path / "codec")
    path = tmp_path / "codec" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(ConfigError, match=fault):
        load_codec_model(tmp_path / "codec")
