"""A weight too few, too many or of another shape is refused by its name, wherever it was loaded from."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from solfa.errors import ConfigError
from solfa.pretrained.account import MOST_NAMES, check_accounted, check_loaded, check_tensors, load_exactly
from solfa.pretrained.tensors import TensorFiles


def state(**changes):
    return {"weight": torch.ones(2, 3), "bias": torch.ones(2), **changes}


FAULTS = [
    ({"weight": torch.ones(3, 2)}, r"shape weight \[3, 2\] instead of \[2, 3\]"),
    ({"extra": torch.ones(1)}, "unexpected extra"),
]


@pytest.mark.parametrize(("changes", "fault"), FAULTS)
def test_a_model_takes_exactly_its_own_tensors(changes, fault):
    model = nn.Linear(3, 2)
    with pytest.raises(ConfigError, match=f"^here: .*{fault}"):
        load_exactly(model, state(**changes), "here")
    with pytest.raises(ConfigError, match="missing bias"):
        load_exactly(model, {"weight": torch.ones(2, 3)}, "here")
    load_exactly(model, state(), "here")
    assert torch.equal(model.weight, torch.ones(2, 3))


@pytest.mark.parametrize(("changes", "fault"), FAULTS)
def test_files_are_checked_by_their_shapes_alone(tmp_path, changes, fault):
    wanted = {"weight": (2, 3), "bias": (2,)}
    save_file(state(**changes), tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match=f"^here: .*{fault}"):
        check_tensors(TensorFiles(tmp_path), wanted, set(), "here")
    save_file(state(known=torch.ones(1)), tmp_path / "model.safetensors")
    check_tensors(TensorFiles(tmp_path), wanted, {"known"}, "here")


def test_what_a_library_says_of_its_loading_is_the_same_sentence():
    info = {"missing_keys": {"a"}, "unexpected_keys": {"b", "spare"}, "mismatched_keys": {("c", (1,), (2,))}}
    with pytest.raises(ConfigError, match=r"missing a; unexpected b; .*shape c \[1\] instead of \[2\]"):
        check_loaded(info, "here", is_spare=lambda name: name == "spare")
    check_loaded({"missing_keys": (), "unexpected_keys": ["spare"], "mismatched_keys": ()}, "here", lambda name: True)


def test_many_names_are_counted():
    with pytest.raises(ConfigError, match=r"missing 0, .*, 7 and 2 more"):
        check_accounted([str(number) for number in range(MOST_NAMES + 2)], (), (), "here")
