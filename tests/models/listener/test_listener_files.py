"""The files of a listener: read as they were written, every weight accounted for."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from solfa.errors import ConfigError
from solfa.models.listener.listener_files import FOLDER, LISTENER_FILES, find_listener, load_listener, save_listener
from tests.models.listener.test_network import CONFIG, listener


@pytest.mark.parametrize("half", [False, True])
def test_what_is_saved_is_loaded_and_every_weight_is_accounted_for(tmp_path: Path, half: bool) -> None:
    network, folder = listener(), tmp_path / FOLDER
    assert find_listener(tmp_path) is None
    save_listener(network, folder, half=half)
    assert find_listener(tmp_path) == folder
    assert {str(path.relative_to(tmp_path)) for path in folder.iterdir()} == set(LISTENER_FILES)
    loaded = load_listener(folder)
    assert loaded.config == CONFIG and not loaded.training
    for name, tensor in network.state_dict().items():
        expected = tensor.half().float() if half else tensor
        assert loaded.state_dict()[name].dtype == torch.float32 and torch.equal(loaded.state_dict()[name], expected)
    weights = load_file(folder / "model.safetensors")
    save_file({name: weights[name] for name in weights if name != "output.bias"}, folder / "model.safetensors")
    with pytest.raises(ConfigError, match=r"missing output\.bias"):
        load_listener(folder)
    save_file({**weights, "more": torch.zeros(1)}, folder / "model.safetensors")
    with pytest.raises(ConfigError, match="unexpected more"):
        load_listener(folder)


def test_another_kind_of_folder_is_refused(tmp_path: Path) -> None:
    save_listener(listener(), tmp_path / FOLDER)
    path = tmp_path / LISTENER_FILES[0]
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_type": "solfa_codec"}))
    with pytest.raises(ConfigError, match=r"expected a solfa_listener of format_version 1 .*found 'solfa_codec'"):
        load_listener(tmp_path / FOLDER)
