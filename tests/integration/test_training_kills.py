import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from solfa.solvers.checkpoint import read_state
from tests.solvers.conftest import same_run

ROOT = Path(__file__).parents[2]


def train(folder: Path, world_size: int, kills: int) -> int:
    """Train with so many SIGKILLs on the way; return how many hit running processes."""
    command = [sys.executable, "-m", "tests.integration.train_driver", str(folder), str(world_size), str(kills)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        environment.pop(name, None)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Train without a kill, once for each number of processes."""

    @cache
    def folder(world_size: int) -> Path:
        path = tmp_path_factory.mktemp("unbroken")
        train(path, world_size, kills=0)
        return path

    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("world_size", "kills"), [(1, 10), (2, 5)])
def test_run_killed_at_random_ends_with_the_very_parameters_of_an_unbroken_one(
    tmp_path: Path, unbroken: Callable[[int], Path], world_size: int, kills: int
) -> None:
    killed = train(tmp_path, world_size, kills)
    assert killed >= 3
    assert same_run(unbroken(world_size), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.pt", "checkpoint.pt", "history.json"]


def test_two_processes_learn_what_one_learns(unbroken: Callable[[int], Path]) -> None:
    histories = [read_state(unbroken(size) / "checkpoint.pt")["history"] for size in (1, 2)]
    # Dropout draws differ between the processes, so the curves are alike and not equal.
    for alone, together in zip(*histories, strict=True):
        assert together["valid"]["loss"] == pytest.approx(alone["valid"]["loss"], rel=0.5)
    assert histories[1][-1]["valid"]["loss"] < histories[1][0]["valid"]["loss"]
