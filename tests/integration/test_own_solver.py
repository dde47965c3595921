"""The solver of docs/add_a_model.md as a user has it: a file, a YAML, a killed run, and clips to listen to."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import soundfile
import torch

from solfa.config import parse_config
from solfa.solvers.experiment import Experiment
from solfa.xp.layout import LAST
from solfa.xp.state_file import read_state
from tests.docs.pages import ROOT, Block, blocks
from tests.integration.commands import solfa_here
from tests.integration.own_solver import NextCodeConfig, NextCodeSolver
from tests.ready_process import ReadyProcess
from tests.solvers.conftest import same_run

PATIENCE = 300.0
"""How many seconds anything may take, only against hanging."""
PAGE = ROOT / "docs/add_a_model.md"
FILE = Path(__file__).with_name("own_solver.py")
TRAIN = [
    "train",
    "solver=next_code",
    "optim.updates_per_epoch=40",
    "checkpoint.minutes=0.002",
    "logging.tensorboard=false",
]


def page_block(wanted: Callable[[Block], bool]) -> str:
    (found,) = (block.body for block in blocks(PAGE.read_text("utf-8")) if wanted(block))
    return found


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What a reader of the page has after following it: recordings, their dataset, the solver and its YAML."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    exec(page_block(lambda block: "tones.solfa" in block.body and "solfa.encode" in block.body), {})
    (tmp_path / "next_code.py").write_text(FILE.read_text("utf-8"))
    yaml = tmp_path / "conf/solver/next_code.yaml"
    yaml.parent.mkdir(parents=True)
    yaml.write_text(page_block(lambda block: block.file_name == "conf/solver/next_code.yaml"))
    yield tmp_path
    torch.set_num_threads(threads)


def killed_within_training(ready: ReadyProcess, folder: Path) -> Path:
    """Start the training as the page says, kill it once it has saved something; return its folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SOLFA_", "AUDIOCRAFT_"))}
    places = {"SOLFA_DORA_DIR": str(folder / "dora"), "SOLFA_SEARCH_PATH": "conf", "PYTHONPATH": str(ROOT)}
    kept |= {**places, "OMP_NUM_THREADS": "1"}
    command = ready.start(*TRAIN, cwd=folder, **kept)
    deadline = time.monotonic() + PATIENCE
    while not (found := list(folder.glob(f"dora/xps/*/{LAST}"))):
        assert command.poll() is None and time.monotonic() < deadline, command.output
        time.sleep(0.01)
    command.kill()
    assert command.returncode == -signal.SIGKILL
    return found[0].parent


def unbroken(settings: Path, folder: Path) -> Path:
    """Train with the settings of an experiment in this process, without a break."""
    cfg = parse_config(NextCodeConfig, json.loads(settings.read_text()), str(settings))
    NextCodeSolver(cfg, Experiment(folder, "unbroken")).run()
    return folder


def test_the_page_shows_this_very_solver() -> None:
    assert page_block(lambda block: "class NextCodeSolver" in block.body) == FILE.read_text("utf-8")


def run(folder: Path, patch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Run a command in the reader's folder and in this process, which has imported everything already."""
    patch.setenv("SOLFA_SEARCH_PATH", "conf")
    patch.syspath_prepend(folder)
    return solfa_here(folder / "dora", *arguments)


@pytest.mark.slow
def test_own_solver_is_trained_killed_resumed_and_listened_to(
    ready: ReadyProcess, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = killed_within_training(ready, own_folder)
    state = read_state(experiment / LAST)
    assert (state["epoch"], state["num_updates"]) < (3, 0), "killed before it was done"

    run(own_folder, monkeypatch, *TRAIN)
    assert "resuming" in (experiment / "solver.log.0").read_text()
    history = json.loads((experiment / "history.json").read_text())
    assert [set(epoch) for epoch in history] == [
        {"train", "valid", "evaluate"},
        {"train", "valid", "evaluate", "generate"},
    ]
    assert history[1]["evaluate"]["loss"] < history[0]["evaluate"]["loss"] < 5.6
    assert same_run(unbroken(experiment / "config.json", own_folder / "unbroken"), experiment)

    run(
        own_folder,
        monkeypatch,
        "generate",
        experiment.name,
        "--trust-code",
        "--seconds",
        "0.05",
        "--num",
        "2",
        "--out",
        "drawn",
    )
    drawn = [soundfile.read(own_folder / f"drawn/clip-{index:03d}.wav") for index in range(2)]
    assert [(len(audio), rate) for audio, rate in drawn] == [(200, 4000)] * 2
    assert (drawn[0][0] != drawn[1][0]).any() and drawn[0][0].any()
