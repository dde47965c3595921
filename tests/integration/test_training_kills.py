import json
import os
from pathlib import Path

import pytest

from solfa.xp.state_file import read_state
from tests.forked import launcher_variables
from tests.ready_process import ReadyProcess
from tests.solvers.conftest import same_run

ROOT = Path(__file__).parents[2]
KILLS = {1: 10, 2: 5}
"""How often a run of so many processes is killed."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(ready: ReadyProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train with one process and with two, without a break (`1`, `2`) and with SIGKILLs on the way (`1-killed`)."""
    folder = tmp_path_factory.mktemp("trained")
    runs = [(folder / f"{size}", size, 0) for size in KILLS]
    runs += [(folder / f"{size}-killed", size, kills) for size, kills in KILLS.items()]
    environment = {name: value for name, value in os.environ.items() if name not in launcher_variables(0, 1, 0)}
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = ready.start(json.dumps(runs, default=str), module="tests.integration.train_driver", **environment)
    assert done.wait(600) == 0, done.output  # the time is only against hanging
    hits = json.loads(done.output.splitlines()[-1])[len(KILLS) :]
    assert min(hits) >= 3, f"kills that hit a run within its training: {hits}"
    return folder


@pytest.mark.parametrize("world_size", KILLS)
def test_run_killed_at_random_ends_with_the_very_parameters_of_an_unbroken_one(trained: Path, world_size: int) -> None:
    unbroken, killed = trained / f"{world_size}", trained / f"{world_size}-killed"
    assert same_run(unbroken, killed)
    assert sorted(path.name for path in killed.iterdir()) == ["best.pt", "checkpoint.pt", "history.json"]


def test_two_processes_learn_what_one_learns(trained: Path) -> None:
    histories = [read_state(trained / f"{size}" / "checkpoint.pt")["history"] for size in (1, 2)]
    # Dropout draws differ between the processes, so the curves are alike and not equal.
    for alone, together in zip(*histories, strict=True):
        assert together["valid"]["loss"] == pytest.approx(alone["valid"]["loss"], rel=0.5)
    assert histories[1][-1]["valid"]["loss"] < histories[1][0]["valid"]["loss"]
