"""Tensors are read from files of both kinds, one by one, and hashed by all that makes them what they are."""

import pytest
import torch
from safetensors.torch import save_file

from solfa.errors import ConfigError
from solfa.pretrained.tensors import TensorFiles, read_state_dict, weights_sha256

STATE = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.ones(2), "b": torch.tensor(3)}


def test_both_kinds_of_files_hold_the_same_tensors(tmp_path):
    save_file(STATE, tmp_path / "model.safetensors")
    torch.save(STATE, tmp_path / "x.pt")
    torch.save({"state_dict": STATE, "step": 7}, tmp_path / "x.ckpt")
    for path in tmp_path.iterdir():
        read = read_state_dict(path)
        assert read.keys() == STATE.keys() and all(torch.equal(read[name], STATE[name]) for name in STATE)


def test_a_directory_gives_names_shapes_and_parts_without_reading_the_rest(tmp_path):
    torch.save(STATE, tmp_path / "pytorch_model.bin")
    files = TensorFiles(tmp_path)
    assert files.names == set(STATE) and files.shape("a.weight") == (2, 3)
    assert files.part("a.").keys() == {"weight", "bias"}
    assert torch.equal(files.read("b"), STATE["b"])


@pytest.mark.parametrize("name", ["x.safetensors", "x.pt"])
def test_bytes_that_are_no_tensors_are_one_sentence(tmp_path, name):
    (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(ConfigError, match=rf"checkpoint .*{name}: "):
        read_state_dict(tmp_path / name)
    with pytest.raises(ConfigError, match=r"checkpoint .*: no such file"):
        read_state_dict(tmp_path / "nothing.pt")
    torch.save({"epoch": 3}, tmp_path / "x.pt")
    with pytest.raises(ConfigError, match="dictionary of tensors"):
        read_state_dict(tmp_path / "x.pt")


def test_the_hash_depends_on_names_types_shapes_and_bytes_and_on_nothing_else():
    known = weights_sha256(STATE)
    assert weights_sha256(dict(reversed(STATE.items()))) == known
    others = [
        {**STATE, "b": torch.tensor(4)},
        {**STATE, "b": torch.tensor([3])},
        {**STATE, "b": torch.tensor(3.0)},
        {**STATE, "c": torch.tensor(3)},
    ]
    assert len({known, *map(weights_sha256, others)}) == 5
