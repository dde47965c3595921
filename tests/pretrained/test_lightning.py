"""Checkpoints of PyTorch Lightning: weights and settings are read, and nothing in the file runs."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from solfa.errors import ConfigError
from solfa.pretrained.lightning import read_lightning

WEIGHTS = {"layer.weight": torch.ones(2, 3)}
SETTINGS = {"model": {"pool": [4, 4], "lr": {"dt": 0.001}, "norm": None, "glu": True}, "name": "${model.glu}"}


def write(path: Path, **content: Any) -> Path:
    torch.save({"state_dict": WEIGHTS, "epoch": 3, **content}, path)
    return path


def test_settings_are_read_from_objects_of_omegaconf_as_plain_values(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ckpt", hyper_parameters=OmegaConf.create(SETTINGS), hparams_type=DictConfig)
    allowed = set(torch.serialization.get_safe_globals())
    found = read_lightning(path)
    assert found.settings == SETTINGS
    assert found.state.keys() == WEIGHTS.keys() and torch.equal(found.state["layer.weight"], torch.ones(2, 3))
    assert (
        set(torch.serialization.get_safe_globals()) == allowed
    )  # what was allowed for this file is not allowed for others


def test_a_file_may_hold_plain_settings_or_the_weights_alone(tmp_path: Path) -> None:
    assert read_lightning(write(tmp_path / "a.ckpt", hyper_parameters=SETTINGS)).settings == SETTINGS
    torch.save(WEIGHTS, tmp_path / "b.pt")
    found = read_lightning(tmp_path / "b.pt")
    assert found.settings is None and found.state.keys() == WEIGHTS.keys()


class Runs:
    """An object whose file asks for a call."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.asked = call, arguments

    def __reduce__(self) -> Any:
        return self.asked


@pytest.mark.parametrize("call", [os.system, subprocess.Popen, eval, getattr])
def test_code_of_anything_else_is_refused_and_not_run(tmp_path: Path, call: Any) -> None:
    mark = tmp_path / "ran"
    path = write(tmp_path / "bad.ckpt", hyper_parameters=Runs(call, f"touch {mark}"))
    with pytest.raises(ConfigError, match=r"bad\.ckpt: .*code in it .*will not run"):
        read_lightning(path)
    assert not mark.exists()


@pytest.mark.parametrize("content", [{}, {"state_dict": {"a": 1}}, [1, 2]])
def test_what_holds_no_weights_is_refused(tmp_path: Path, content: Any) -> None:
    torch.save(content, tmp_path / "other.ckpt")
    with pytest.raises(ConfigError, match="expected a dictionary of tensors"):
        read_lightning(tmp_path / "other.ckpt")
    with pytest.raises(ConfigError, match="no such file"):
        read_lightning(tmp_path / "none.ckpt")
    (tmp_path / "text.ckpt").write_text("hello")
    with pytest.raises(ConfigError, match="another kind of file"):
        read_lightning(tmp_path / "text.ckpt")
