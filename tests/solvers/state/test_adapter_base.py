"""Runs with an adapter: exact resuming, checkpoints of the adapter alone, and models made of both."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from peft import PeftModel
from torch import Tensor

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.generate.base_weights import read_base
from solfa.generate.export import export_adapter, export_model
from solfa.generate.model import build_model, load_model
from solfa.generate.trained_folder import read_trained
from solfa.models.lm.musicgen import load_musicgen
from solfa.models.mot.network import MoT
from solfa.solvers.experiment import Experiment
from solfa.solvers.standard import StandardSolver
from solfa.solvers.watchers.protocol import Watcher, Watchers
from solfa.xp.state_file import read_state, write_state
from tests.models.conditioners.tiny_encoders import write_musicgen
from tests.solvers import mot_runs
from tests.solvers.conftest import check_resume, equal
from tests.solvers.tasks import test_flow, test_lm
from tests.solvers.toy import ToyConfig, ToySolver, toy_values

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
KINDS = ("lm", "flow", "mot")
Values = dict[str, Any]


class Task(NamedTuple):
    """How to train a model of one kind, with or without an adapter on `base`."""

    build: Callable[[Path, Values, Watcher], StandardSolver[Any]]
    values: Callable[..., Values]
    base: Path


def run(task: Task, folder: Path, **changes: Any) -> Path:
    """Train in a folder, as an experiment does."""
    values = task.values(**changes)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(values))
    task.build(folder, values, Watchers(())).run()
    return folder


def on_base(task: Task, **changes: Any) -> dict[str, Any]:
    lora = {"rank": 2, "dropout": 0.1}
    return {"continue_from": str(task.base), "adapter": lora, **changes}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Task]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("bases")
    songs, latents = test_lm.store_songs(folder / "songs.solfa"), test_flow.store_latents(folder / "latents.solfa")
    world = mot_runs.make_world(folder / "world")

    def lm_values(**changes: Any) -> Values:
        return test_lm.lm_values(songs, conditioner=test_lm.LABELS, **changes)

    tasks = {
        "lm": Task(test_lm.solver_of, lm_values, folder / "lm"),
        "flow": Task(test_flow.solver_of, lambda **changes: test_flow.flow_values(latents, **changes), folder / "flow"),
        "mot": Task(mot_runs.solver_of, lambda **changes: mot_runs.mot_values(world, **changes), folder / "mot"),
    }
    for task in tasks.values():
        run(task, task.base, optim__epochs=1)
    return tasks


@pytest.fixture(scope="module")
def adapted(tasks: Mapping[str, Task], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """An experiment with an adapter of every kind."""
    folder = tmp_path_factory.mktemp("adapted")
    return {kind: run(task, folder / kind, **on_base(task, optim__epochs=1)) for kind, task in tasks.items()}


def network_of(folder: Path) -> Any:
    """The network that a model of this folder generates with, as it was trained."""
    return build_model(read_trained(folder), device="cpu").generator.network


def weights_of(network: Any) -> dict[str, Tensor]:
    """All weights that a network computes with, those of its text model included."""
    texts = network.base.model.state_dict() if isinstance(network, MoT) else {}
    own = dict(network.named_parameters())
    return own | {f"base.{name}": value for name, value in texts.items()}


def same_weights(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_run_with_an_adapter_equals_one_that_was_not(
    tasks: Mapping[str, Task], tmp_path: Path, kind: str
) -> None:
    task = tasks[kind]
    check_resume(tmp_path, lambda folder, watcher: task.build(folder, task.values(**on_base(task)), watcher), 4)


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_hold_the_adapter_alone_and_name_its_base(
    tasks: Mapping[str, Task], adapted: Mapping[str, Path], kind: str
) -> None:
    for name in ("checkpoint.pt", "best.pt"):
        state = read_state(adapted[kind] / name)
        stored = state["states"]["model"]
        assert stored["weights"] and all("lora_" in key for key in stored["weights"])
        assert stored["base"] == state["started_from"]
        assert stored["base"]["source"] == tasks[kind].base.name
        assert not stored["fresh"]
    learned = read_state(adapted[kind] / "best.pt")["states"]["model"]["weights"]
    assert any(bool(value.any()) for name, value in learned.items() if "lora_B" in name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_its_base_with_the_change_of_the_adapter_in_its_layers(
    tasks: Mapping[str, Task], adapted: Mapping[str, Path], kind: str
) -> None:
    base, merged = weights_of(network_of(tasks[kind].base)), weights_of(network_of(adapted[kind]))
    layers = read_state(adapted[kind] / "best.pt")["states"]["model"]["layers"]
    place = {"lm": "lm.", "flow": "dit.dit.", "mot": "base."}[kind]
    # The text after the last layer is read by nobody, so its feed-forward there learns nothing.
    idle = [name for name in layers if kind == "mot" and ".1.mlp." in name]
    wanted = {f"{place}{name}.weight" for name in layers if name not in idle}
    assert {name for name in base if not torch.equal(base[name], merged[name])} == wanted


@pytest.mark.parametrize("kind", ["lm", "mot"])
def test_an_exported_model_needs_no_base_beside_it(adapted: Mapping[str, Path], tmp_path: Path, kind: str) -> None:
    exported = export_model(adapted[kind], tmp_path / "exported")
    assert same_weights(weights_of(network_of(exported)), weights_of(network_of(adapted[kind])))
    # The text model is not in the folder, so that what changes it has to be.
    assert ("adapters" in json.loads((exported / "config.json").read_text())) == (kind == "mot")
    if kind == "mot":
        with pytest.raises(ConfigError, match="continue from the experiment"):
            read_base(str(exported))


def test_a_run_continues_from_an_exported_model_and_not_from_an_adapter(
    tasks: Mapping[str, Task], adapted: Mapping[str, Path], tmp_path: Path
) -> None:
    task, exported = tasks["lm"], export_model(adapted["lm"], tmp_path / "exported")
    solver = task.build(tmp_path / "next", task.values(continue_from=str(exported)), Watchers(()))
    solver.restore()
    found = weights_of(solver.network)  # type: ignore[attr-defined]
    assert same_weights(found, weights_of(network_of(adapted["lm"])))
    solver = task.build(tmp_path / "other", task.values(continue_from=str(adapted["lm"])), Watchers(()))
    with pytest.raises(ConfigError, match=r"adapter alone.*export-model"):
        solver.restore()


def test_factors_scale_changes_and_an_adapter_of_another_base_is_refused(
    tasks: Mapping[str, Task], adapted: Mapping[str, Path], tmp_path: Path
) -> None:
    task, own = tasks["lm"], adapted["lm"]
    base = load_model(task.base, device="cpu", weights="fp32")
    whole, none, again = (
        load_model(where, device="cpu", adapters=factors)
        for where, factors in ((task.base, {own: 1.0}), (own, {own: 0.0}), (own, {}))
    )
    clip = torch.zeros(2, 12)
    assert base.log_prob(clip) == none.log_prob(clip) != whole.log_prob(clip) == again.log_prob(clip)
    assert whole.provenance["adapters"][0]["factor"] == 1.0
    other = run(task, tmp_path / "other", seed=7, optim__epochs=1)
    with pytest.raises(ConfigError, match=r"trained on the weights .* of lm"):
        load_model(other, device="cpu", adapters={own: 1.0})
    with pytest.raises(ConfigError, match="expected an adapter"):
        load_model(other, device="cpu", adapters={other: 1.0})
    with pytest.raises(ConfigError, match="expected a number"):
        load_model(task.base, device="cpu", adapters={own: float("nan")})


def test_a_run_whose_base_is_no_longer_the_same_is_refused(tasks: Mapping[str, Task], tmp_path: Path) -> None:
    task, base = tasks["lm"], tmp_path / "base"
    shutil.copytree(task.base, base)
    values = task.values(**on_base(task, optim__epochs=1) | {"continue_from": str(base)})
    task.build(tmp_path / "xp", values, Watchers(())).run()
    state = read_state(base / "best.pt")
    state["states"]["model"]["lm.heads.weight"] += 1
    write_state(base / "best.pt", state)
    solver = task.build(tmp_path / "xp", values, Watchers(()))
    with pytest.raises(ConfigError, match="use the base that it was trained on"):
        solver.restore()


def test_an_adapter_whose_base_is_gone_says_which_it_was(adapted: Mapping[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(adapted["lm"], tmp_path / "xp"))
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, "continue_from": str(tmp_path / "nowhere")}))
    with pytest.raises(ConfigError, match=r"nowhere, which are not there"):
        read_trained(folder)


def test_settings_that_cannot_be_are_refused(tasks: Mapping[str, Task], tmp_path: Path) -> None:
    task = tasks["lm"]

    def refused(reason: str, **changes: Any) -> None:
        with pytest.raises(ConfigError, match=reason):
            task.build(tmp_path, task.values(**on_base(task, **changes)), Watchers(()))

    refused("continue_from", continue_from=None)
    refused("continue_keep", continue_keep=["optimizer"])
    refused("fsdp|sharded", strategy="fsdp")
    refused(r"'\*\.qvk'.*did you mean 'qkv'.*transformer\.layers\.\*\.self_attention\.out", adapter__targets=["*.qvk"])
    refused("adapter.rnak", adapter={"rnak": 3})
    values = toy_values(continue_from=str(task.base), adapter={"rank": 2})
    with pytest.raises(ConfigError, match="does not train adapters"):
        ToySolver(parse_config(ToyConfig, values, "toy"), Experiment(tmp_path, "toy"))


@pytest.mark.slow
def test_what_a_foreign_base_lacks_is_stored_with_the_adapter(tmp_path: Path) -> None:
    source = write_musicgen(tmp_path / "musicgen")
    songs = test_lm.store_songs(tmp_path / "songs.solfa")
    text = {"kind": "text", "source": "caption", "encoder": str(source), "fuse": "cross"}
    conditions = {"conditioners": {"description": text, **test_lm.LABELS["conditioners"]}}  # type: ignore[dict-item]
    sizes = {"dim": 16, "num_layers": 1, "num_heads": 2, "ffn_dim": 16}

    def values(**changes: Any) -> Values:
        return test_lm.lm_values(songs, model=sizes, conditioner=conditions, **changes)

    task = Task(test_lm.solver_of, values, source)
    folder = run(task, tmp_path / "xp", **on_base(task, optim__epochs=1))
    stored = read_state(folder / "best.pt")["states"]["model"]
    assert any(name.startswith("conditioners.conditioners.genre") for name in stored["fresh"])
    assert not any(name.startswith("lm.") for name in stored["fresh"])
    network = network_of(folder)
    assert torch.equal(network.lm.heads.weight, load_musicgen(source).model.heads.weight)
    assert equal(
        {name: value for name, value in network.state_dict().items() if name in stored["fresh"]}, stored["fresh"]
    )
    check_resume(tmp_path / "again", lambda place, watcher: task.build(place, values(**on_base(task)), watcher), 4)


def test_peft_puts_the_files_on_the_networks_of_diffusers_and_transformers(
    tasks: Mapping[str, Task], adapted: Mapping[str, Path], tmp_path: Path
) -> None:
    for kind in ("flow", "mot"):
        export_adapter(adapted[kind], tmp_path / kind)
        base, merged = network_of(tasks[kind].base), network_of(adapted[kind])
        part = base.dit.dit if kind == "flow" else base.base.model
        wanted = merged.dit.dit if kind == "flow" else merged.base.model
        assert type(part).__module__.startswith("diffusers" if kind == "flow" else "transformers")
        found = PeftModel.from_pretrained(part, tmp_path / kind).merge_and_unload()
        assert same_weights(found.state_dict(), wanted.state_dict())


LOG_PROB = """
import sys, torch, solfa
torch.set_num_threads(1)
print([solfa.load_model(place, device="cpu").log_prob(torch.zeros(2, 12)) for place in sys.argv[1:]])
"""


@pytest.mark.slow
def test_the_adapter_alone_gives_the_same_in_another_process(adapted: Mapping[str, Path], tmp_path: Path) -> None:
    places = [adapted["lm"], adapted["mot"]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", LOG_PROB, *map(str, places)]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    here = [load_model(place, device="cpu").log_prob(torch.zeros(2, 12)) for place in places]
    assert json.loads(done.stdout) == here
