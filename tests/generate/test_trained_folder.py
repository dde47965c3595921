"""What was trained is read from its folder alone; a folder that holds nothing trained is answered with a sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from solfa.config import parse_config
from solfa.errors import ConfigError, StoreError
from solfa.generate.export import export_model
from solfa.generate.model import build_model, load_model
from solfa.generate.trained_folder import TRAINING_ONLY, read_trained
from solfa.solvers.config import SolverConfig
from solfa.solvers.experiment import Experiment
from solfa.xp.state_file import read_state
from tests.models.sashimi.state_spaces_network import Network, Original, random_state
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


def test_settings_weights_and_epoch_are_read(trained: Callable[..., Path]) -> None:
    folder = trained()
    found = read_trained(folder)
    best = read_state(folder / "best.pt")
    assert found.solver == "tests.solvers.toy:ToySolver" and found.config["hidden"] == 8
    assert all(torch.equal(best["states"]["model"][name], value) for name, value in found.state.items())
    assert found.about == {"epoch": best["epoch"], "metric": "loss", "value": best["value"]}


def test_reading_changes_nothing_in_the_folder(trained: Callable[..., Path]) -> None:
    folder = trained()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    read_trained(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_settings_of_training_are_those_that_every_solver_has() -> None:
    assert TRAINING_ONLY | {"solver", "generate"} == set(SolverConfig.model_fields)


@pytest.mark.parametrize("name", ["config.json", "best.pt"])
def test_a_folder_without_settings_or_weights_is_refused(trained: Callable[..., Path], name: str) -> None:
    folder = trained()
    (folder / name).unlink()
    with pytest.raises(ConfigError, match=f"abc123: .*trained.* no {name}"):
        load_model(folder)


@pytest.mark.parametrize(
    ("content", "keyword"),
    [
        ('{"solver": ', r"config\.json: .*JSON"),
        ("[]", r"config\.json: .*found list"),
        ("{}", r"solver: .*lm.*, found 'None'"),
        ('{"solver": "nobody.knows:It"}', r"nobody\.knows.*PYTHONPATH"),
        ('{"solver": "compression"}', "does not generate"),
        ('{"model_type": "solfa_codec"}', r"abc123: .*found a codec.*load_codec"),
    ],
)
def test_settings_that_are_none_get_one_sentence(trained: Callable[..., Path], content: str, keyword: str) -> None:
    folder = trained()
    (folder / "config.json").write_text(content)
    with pytest.raises((ConfigError, StoreError), match=keyword):
        load_model(folder, trust_code=True)


def test_code_of_others_is_not_run_unless_it_is_trusted(
    trained: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evilmod.py").write_text("raise SystemExit('this ran')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="trust_code"):
        load_model(trained(solver="evilmod:Solver"))


def test_a_task_that_does_not_say_how_it_generates_is_refused(trained: Callable[..., Path]) -> None:
    with pytest.raises(ConfigError, match="attribute Generator"):
        build_model(read_trained(trained()), trust_code=True)


def test_a_checkpoint_of_state_spaces_is_a_model_and_can_be_exported(tmp_path: Path) -> None:
    net = Original(bits=4)
    state = random_state(net)
    torch.save({"state_dict": state, "hyper_parameters": net.settings}, tmp_path / "loss.ckpt")
    model = load_model(tmp_path / "loss.ckpt", device="cpu")
    assert (model.info.sample_rate, model.info.codec.partition(",")[0]) == (16_000, "mulaw:bits=4")
    (clip,) = model.generate(seconds=36 / 16_000)
    classes = torch.as_tensor(model.codec.encode(clip.audio[None]).array)[..., 0].long()  # type: ignore[index,arg-type]
    begun = torch.cat([torch.full((1, 1), 8), classes[:, :-1]], dim=1)
    expected = Network(net, state)(begun).log_softmax(-1).gather(-1, classes[..., None]).sum()
    assert model.log_prob(clip) == pytest.approx(float(expected), abs=1e-3)
    assert clip.metadata["log_prob"] == pytest.approx(float(expected), abs=1e-3)
    export_model(tmp_path / "loss.ckpt", tmp_path / "exported")
    assert "trained with state-spaces" in (tmp_path / "exported/README.md").read_text()
    (again,) = load_model(tmp_path / "exported", device="cpu").generate(seconds=36 / 16_000)
    assert torch.equal(torch.as_tensor(again.audio), torch.as_tensor(clip.audio))


def test_a_file_that_is_no_checkpoint_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(b"RIFF")
    with pytest.raises(ConfigError, match=r"song\.wav: .*another kind of file"):
        load_model(tmp_path / "song.wav")
