"""The real `dora` command on a solver of a user's own: run, several processes, grids, and how they end."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.experiments.own_folder import own_variables
from tests.ready_process import DORA, Command, ReadyProcess

SLOW = ["solver=own", "optim.epochs=50", "optim.updates_per_epoch=100", "seconds_per_step=0.02"]
PATIENCE = 300.0
"""How many seconds anything may take, only against hanging: a busy machine is many times slower than an idle one."""
pytestmark = pytest.mark.slow

Dora = Callable[..., Command]


@pytest.fixture
def dora_dir(tmp_path: Path) -> Path:
    return tmp_path / "a (new), place"


@pytest.fixture
def dora(ready: ReadyProcess, dora_dir: Path) -> Dora:
    """Run a `dora` command to its end."""

    def run(*arguments: str) -> Command:
        command = ready.start(*arguments, module=DORA, **own_variables(dora_dir))
        command.wait()
        return command

    return run


def only_experiment(dora_dir: Path) -> Path:
    (folder,) = (dora_dir / "xps").iterdir()
    return folder


def workers_of(process: Command, dora_dir: Path, count: int) -> list[int]:
    """Wait until all processes train, and give their ids."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the run ended before it trained: {process.output}"
        texts = [path.read_text() for path in dora_dir.glob("xps/*/alive.*")]
        if len(texts) == count and all(texts):
            return [int(text) for text in texts]
        time.sleep(0.05)
    raise AssertionError("the run did not begin to train")


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "workers are left behind"
        time.sleep(0.05)


def test_a_run_is_an_experiment_that_dora_knows_and_that_no_typo_clears(dora, dora_dir):
    ran = dora("run", "solver=own", "optim.epochs=1")
    assert ran.returncode == 0, ran.output
    folder = only_experiment(dora_dir)
    assert len(json.loads((folder / "history.json").read_text())) == 1
    assert {"config.json", "checkpoint.pt", "solver.log.0", ".argv.json"} <= {path.name for path in folder.iterdir()}
    told = dora("info", "-f", folder.name, "-m")
    assert told.returncode == 0 and str(folder) in told.output and "Metrics[1]" in told.output
    # The device is no part of the signature, so this is the same experiment.
    ran = dora("run", "--clear", "-f", folder.name, "device=gpu")
    assert ran.returncode == 2
    assert re.fullmatch(r".* from sig \w+\nsolfa: .*: device: .*, found 'gpu'\n", ran.output)
    assert (folder / "checkpoint.pt").is_file()


@pytest.mark.parametrize("arguments", [["solver=own", "device=gpu"], ["-d", "solver=own", "refuse=true"]])
def test_a_run_that_is_refused_leaves_no_folder(dora, arguments, dora_dir):
    result = dora("run", *arguments)
    assert result.returncode == 2, result.output
    assert not list((dora_dir / "xps").glob("*"))


def test_a_grid_is_shown_and_its_folders_are_made(dora, dora_dir):
    ran = dora("grid", "lm.debug", "--dry_run", "--init", "--no_monitoring")
    assert ran.returncode == 0, ran.output
    assert "flat" in ran.output
    made = [json.loads(path.read_text()) for path in dora_dir.glob("xps/*/.argv.json")]
    assert sum(argv[0] == "solver=lm/debug" for argv in made) == 4


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes as Linux shows them")
@pytest.mark.parametrize(
    ("command", "number", "code", "count"),
    [
        (["dora", "run", "-d"], signal.SIGTERM, 143, 2),  # of workers there are two where there is no GPU
        (["solfa", "train", "--ddp-workers", "1"], signal.SIGKILL, -9, 1),
    ],
    ids=["dora, asked to stop", "solfa, killed"],
)
def test_ending_the_parent_ends_its_workers_which_save(ready, tmp_path, command, number, code, count):
    process = ready.start(*command[1:], *SLOW, module=command[0], **own_variables(tmp_path))
    workers = workers_of(process, tmp_path, count)
    assert len({*workers, process.pid, os.getpid()}) == count + 2
    process.send_signal(number)
    assert process.wait() == code
    wait_until_gone(workers)
    folder = only_experiment(tmp_path)
    assert (folder / "checkpoint.pt").is_file()
    assert "same command" in (folder / "solver.log.0").read_text()
