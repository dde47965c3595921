"""The real `dora` command on a solver of a user's own: run, several processes, grids, and how they end."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.experiments.own_folder import ROOT, own_variables

SLOW = ["solver=own", "optim.epochs=50", "optim.updates_per_epoch=100", "seconds_per_step=0.02"]
pytestmark = pytest.mark.slow

DORA = [sys.executable, "-m", "dora"]
SOLFA_TRAIN = [
    sys.executable,
    "-c",
    "import typer; from solfa.cli import train; app = typer.Typer(); train.add_to(app); app()",
]


@pytest.fixture
def dora_dir(tmp_path: Path) -> Path:
    return tmp_path / "a (new), place"


def dora(dora_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DORA, *arguments],
        cwd=ROOT,
        env=own_variables(dora_dir),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@contextmanager
def running(dora_dir: Path, command: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(command, cwd=ROOT, env=own_variables(dora_dir), stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def only_experiment(dora_dir: Path) -> Path:
    (folder,) = (dora_dir / "xps").iterdir()
    return folder


def workers_of(process: "subprocess.Popen[bytes]", dora_dir: Path, count: int) -> list[int]:
    """Wait until all processes train, and give their ids."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, "the run ended before it trained"
        texts = [path.read_text() for path in dora_dir.glob("xps/*/alive.*")]
        if len(texts) == count and all(texts):
            return [int(text) for text in texts]
        time.sleep(0.05)
    raise AssertionError("the run did not begin to train")


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "workers are left behind"
        time.sleep(0.05)


def test_a_run_is_an_experiment_that_dora_knows_and_that_no_typo_clears(dora_dir):
    ran = dora(dora_dir, "run", "solver=own", "optim.epochs=1")
    assert ran.returncode == 0, ran.stderr
    folder = only_experiment(dora_dir)
    assert len(json.loads((folder / "history.json").read_text())) == 1
    assert {"config.json", "checkpoint.pt", "solver.log.0", ".argv.json"} <= {path.name for path in folder.iterdir()}
    told = dora(dora_dir, "info", "-f", folder.name, "-m")
    assert told.returncode == 0 and str(folder) in told.stderr and "Metrics[1]" in told.stderr
    # The device is no part of the signature, so this is the same experiment.
    ran = dora(dora_dir, "run", "--clear", "-f", folder.name, "device=gpu")
    assert ran.returncode == 2
    assert re.fullmatch(r".* from sig \w+\nsolfa: .*: device: .*, found 'gpu'\n", ran.stderr)
    assert (folder / "checkpoint.pt").is_file()


@pytest.mark.parametrize("arguments", [["solver=own", "device=gpu"], ["-d", "solver=own", "refuse=true"]])
def test_a_run_that_is_refused_leaves_no_folder(arguments, dora_dir):
    result = dora(dora_dir, "run", *arguments)
    assert result.returncode == 2, result.stderr
    assert not list((dora_dir / "xps").glob("*"))


def test_a_grid_is_shown_and_its_folders_are_made(dora_dir):
    ran = dora(dora_dir, "grid", "lm.debug", "--dry_run", "--init", "--no_monitoring")
    assert ran.returncode == 0, ran.stderr
    assert "flat" in ran.stdout
    made = [json.loads(path.read_text()) for path in dora_dir.glob("xps/*/.argv.json")]
    assert sum(argv[0] == "solver=lm/debug" for argv in made) == 4


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes as Linux shows them")
@pytest.mark.parametrize(
    ("command", "number", "code", "count"),
    [
        ([*DORA, "run", "-d"], signal.SIGTERM, 143, 2),  # of workers there are two where there is no GPU
        ([*SOLFA_TRAIN, "--ddp-workers", "1"], signal.SIGKILL, -9, 1),
    ],
    ids=["dora, asked to stop", "solfa, killed"],
)
def test_ending_the_parent_ends_its_workers_which_save(tmp_path, command, number, code, count):
    with running(tmp_path, [*command, *SLOW]) as process:
        workers = workers_of(process, tmp_path, count)
        assert len({*workers, process.pid, os.getpid()}) == count + 2
        process.send_signal(number)
        assert process.wait(100) == code
        wait_until_gone(workers)
    folder = only_experiment(tmp_path)
    assert (folder / "checkpoint.pt").is_file()
    assert "same command" in (folder / "solver.log.0").read_text()
