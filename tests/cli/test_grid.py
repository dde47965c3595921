"""`solfa grid` as it is typed, with a grid of a user's own."""

import shutil
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from solfa.cli import grid
from solfa.errors import ConfigError, StoreError
from solfa.xp.lock import locked
from tests.experiments.own_folder import OWN, own_variables

pytestmark = pytest.mark.slow

TARGETS = ["targets", "-P", "own_grids"]


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    """Experiments under a temporary folder, and the entry point imported anew."""
    for name in ("SOLFA_SEARCH_PATH", "SOLFA_DORA_DIR", "PYTHONPATH", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, own_variables(tmp_path / "dora")[name])
    monkeypatch.syspath_prepend(str(OWN))
    monkeypatch.delitem(sys.modules, "solfa.train", raising=False)


def invoke(*arguments: str) -> Any:
    app = typer.Typer()
    grid.add_to(app)
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_the_experiments_of_a_grid_are_listed_once_each_and_made_if_wanted(tmp_path):
    result = invoke(*TARGETS, "--dry-run")
    assert result.exit_code == 0, result.output
    assert [result.output.count(name) for name in ("target=1.0", "target=2.0 fail", "waiting", "0/2")] == [1, 1, 2, 2]
    assert not (tmp_path / "dora" / "xps").exists()
    invoke(*TARGETS, "--dry-run", "--init")
    assert len(list((tmp_path / "dora" / "xps").glob("*/.argv.json"))) == 2


def test_a_folder_of_links_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kept").symlink_to(tmp_path)
    (tmp_path / "dora" / "grids").mkdir(parents=True)
    (tmp_path / "dora" / "grids" / "targets").symlink_to(tmp_path / "mine")
    result = invoke(*TARGETS, "--local")
    assert isinstance(result.exception, StoreError) and "link" in str(result.exception)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["kept"]


def test_without_slurm_nothing_is_cleared_and_local_is_suggested(tmp_path):
    if shutil.which("sbatch"):
        pytest.skip("there is Slurm here")
    invoke(*TARGETS, "--dry-run", "--init")
    result = invoke(*TARGETS, "--clear")
    assert isinstance(result.exception, ConfigError) and "`local=True`" in str(result.exception)
    assert len(list((tmp_path / "dora" / "xps").glob("*/.argv.json"))) == 2


@pytest.mark.slow
def test_nothing_is_cleared_unless_somebody_says_yes(tmp_path, monkeypatch):
    invoke(*TARGETS, "--dry-run", "--init")
    marks = [path.parent / "mark" for path in (tmp_path / "dora" / "xps").glob("*/.argv.json")]
    for mark in marks:
        mark.touch()
    result = invoke(*TARGETS, "--local", "--clear")
    assert isinstance(result.exception, ConfigError) and "`yes=True`" in str(result.exception)
    with locked(marks[1].parent):
        result = invoke(*TARGETS, "--local", "--clear", "--yes")
    assert isinstance(result.exception, ConfigError) and "running" in str(result.exception)
    assert all(mark.exists() for mark in marks)
    monkeypatch.setattr(grid, "_run_here", lambda *arguments: 0)
    assert invoke(*TARGETS, "--local", "--clear", "--yes").exit_code == 0
    assert not any(mark.exists() for mark in marks)


@pytest.mark.slow
def test_a_local_run_ends_with_one_if_an_experiment_failed_and_goes_on_where_it_stopped(tmp_path):
    result = invoke(*TARGETS, "--local", "--jobs", "2")
    assert result.exit_code == 1, result.output
    assert [result.output.count(word) for word in (" done: ", " failed: ", "2/2")] == [1, 1, 1]
    (failed,) = [path for path in (tmp_path / "dora" / "xps").iterdir() if not (path / "history.json").exists()]
    assert "asked to fail" in (failed / "output.log").read_text()
    assert len(list((tmp_path / "dora" / "grids" / "targets").iterdir())) == 2
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("dora/xps/*/history.json")}
    result = invoke(*TARGETS, "--local", "--jobs", "2")
    assert "done: " not in result.output and result.output.count(" running: ") == 1
    assert {path: path.stat().st_mtime_ns for path in written} == written


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["target", "-P", "own_grids"], "did you mean 'targets'?"),
        (["lm.debgu"], "did you mean 'lm.debug'?"),
        (["targets", "-P", "nowhere"], "'nowhere'"),
        ([*TARGETS, "--clear", "--dry-run"], "--dry-run"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, sentence):
    result = invoke(*arguments)
    assert isinstance(result.exception, ConfigError) and sentence in str(result.exception)


def test_help_has_examples():
    assert "solfa grid lm.debug --local --jobs 2" in invoke("--help").output
