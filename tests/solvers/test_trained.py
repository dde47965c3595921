"""A trained experiment opens from its folder alone: its settings, its best weights, no data."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from solfa.config import parse_config
from solfa.errors import ConfigError, StoreError
from solfa.solvers.experiment import Experiment
from solfa.solvers.trained import open_trained
from solfa.xp.state_file import read_state
from tests.solvers.toy import ToyConfig, ToySolver, toy_values


@pytest.fixture
def trained(tmp_path: Path) -> Callable[..., Path]:
    """Train the toy task and store its settings, some of them changed afterwards."""

    def train(**stored: Any) -> Path:
        cfg = parse_config(ToyConfig, toy_values(optim__epochs=2, optim__updates_per_epoch=2), "toy")
        folder = tmp_path / "abc123"
        ToySolver(cfg, Experiment(folder, "abc123")).run()
        (folder / "config.json").write_text(json.dumps({**cfg.model_dump(mode="json"), **stored}))
        return folder

    return train


def test_the_best_weights_are_opened_ready_to_generate_and_no_data_is(trained: Callable[..., Path]) -> None:
    folder = trained()
    solver = open_trained(folder)
    assert type(solver) is ToySolver and solver.experiment.signature == "abc123"
    best = read_state(folder / "best.pt")["states"]["model"]
    assert all(torch.equal(best[name], value) for name, value in solver.model.state_dict().items())
    assert not solver.model.training
    assert solver.dataloaders == {} and solver.sources == {}


def test_opening_changes_nothing_in_the_folder(trained: Callable[..., Path]) -> None:
    folder = trained()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    open_trained(folder, seed=5)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_changes_replace_stored_settings(trained: Callable[..., Path]) -> None:
    folder = trained(device="cuda")
    solver = open_trained(folder, device="cpu", seed=7)
    assert (solver.cfg.device, solver.cfg.seed, solver.cfg.hidden) == ("cpu", 7, 8)


def test_what_was_trained_on_many_gpus_opens_in_one_process(trained: Callable[..., Path]) -> None:
    solver = open_trained(trained(strategy="fsdp", num_nodes=4))
    assert solver.fabric.world_size == 1


def test_weights_of_another_size_are_refused_by_name(trained: Callable[..., Path]) -> None:
    with pytest.raises(StoreError, match=r"^model\.0\.weight: expected the shape \(5, 3\), found \(8, 3\)"):
        open_trained(trained(), hidden=5)


@pytest.mark.parametrize("name", ["config.json", "best.pt"])
def test_a_folder_without_settings_or_weights_is_refused(trained: Callable[..., Path], name: str) -> None:
    folder = trained()
    (folder / name).unlink()
    with pytest.raises(ConfigError, match=f"abc123: expected a trained experiment, found no {name}; train it first"):
        open_trained(folder)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"solver": ', r"config\.json: expected the settings of a run, found no JSON"),
        ("[]", r"config\.json: expected the settings of a run, found a list"),
        ("{}", r"solver: expected one of .*lm.*, found 'None'"),
        ('{"solver": "tests.solvers.toy", "epochs": 3}', r"config\.json: .*optim: missing.*epochs: unknown field"),
    ],
)
def test_settings_that_are_none_get_one_sentence(trained: Callable[..., Path], content: str, sentence: str) -> None:
    folder = trained()
    (folder / "config.json").write_text(content)
    with pytest.raises((ConfigError, StoreError), match=sentence):
        open_trained(folder)


def test_an_unknown_change_is_refused(trained: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match=r"config\.json: codec: unknown field"):
        open_trained(trained(), codec="mulaw")


def test_a_task_that_makes_no_audio_says_so(trained: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match="it does not generate audio"):
        list(open_trained(trained()).generate_audio([], {}, lambda done, total: None))
