"""`solfa train` as it is typed, with a solver of a user's own."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from solfa.cli import train
from solfa.errors import ConfigError
from tests.experiments.own_folder import OWN, make_main, own_variables


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    """Experiments under a temporary folder, and the entry point imported anew."""
    for name in ("SOLFA_SEARCH_PATH", "SOLFA_DORA_DIR"):
        monkeypatch.setenv(name, own_variables(tmp_path / "dora")[name])
    monkeypatch.syspath_prepend(str(OWN))
    monkeypatch.delitem(sys.modules, "solfa.train", raising=False)


def invoke(*arguments: str) -> Any:
    app = typer.Typer()
    train.add_to(app)
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def experiments(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "dora" / "xps").glob("*"))


def test_it_says_which_experiment_runs_and_it_is_the_one_of_dora(tmp_path):
    result = invoke("solver=own", "optim.epochs=1")
    assert result.exit_code == 0, result.output
    xp = make_main().get_xp(["solver=own", "optim.epochs=1"])
    assert f"experiment {xp.sig} in {xp.folder}" in result.stderr.splitlines()
    assert experiments(tmp_path) == [xp.sig]


def test_a_refused_run_does_not_name_a_folder_that_is_not_there(tmp_path):
    for settings in ("refuse=true", "dset.train=nowhere.solfa", "device=gpu"):
        result = invoke("solver=own", settings)
        assert isinstance(result.exception, ConfigError)
        assert "experiment" not in result.output and not experiments(tmp_path)


def test_an_experiment_is_the_beginning_of_another(tmp_path):
    invoke("solver=own", "optim.epochs=1")
    (first,) = experiments(tmp_path)
    result = invoke("-f", first[:5], "target=2.0")
    assert result.exit_code == 0, result.output
    (second,) = set(experiments(tmp_path)) - {first}
    argv = json.loads((tmp_path / "dora" / "xps" / second / ".argv.json").read_text())
    assert argv == ["solver=own", "optim.epochs=1", "target=2.0"]
    assert isinstance(invoke("-f", "nosuch").exception, ConfigError)
    elsewhere = tmp_path / "elsewhere" / "0badcafe"
    elsewhere.mkdir(parents=True)
    (elsewhere / ".argv.json").write_text('["solver=foreign:Solver"]')
    assert "elsewhere" in str(invoke("-f", str(elsewhere)).exception)


def test_a_dry_run_shows_the_signature_and_the_plan_and_leaves_nothing(tmp_path):
    result = invoke("solver=own", "optim.epochs=1", "--dry-run")
    assert result.exit_code == 0, result.output
    assert make_main().get_xp(["solver=own", "optim.epochs=1"]).sig in result.stdout
    assert "parameters" in result.stderr and "nothing was written" in result.stdout
    assert not (tmp_path / "dora").exists()


def test_clearing_starts_anew_but_only_with_settings_that_are_valid(tmp_path):
    invoke("solver=own", "optim.epochs=1")
    (signature,) = experiments(tmp_path)
    mark = tmp_path / "dora" / "xps" / signature / "mark"
    mark.touch()
    result = invoke("solver=own", "optim.epochs=1", "device=gpu", "--clear")
    assert isinstance(result.exception, ConfigError) and mark.exists()
    result = invoke("solver=own", "optim.epochs=1", "--clear")
    assert result.exit_code == 0 and not mark.exists()
    assert (mark.parent / "checkpoint.pt").is_file()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["solver=onw"], "did you mean 'own'?"),
        (["solver=own", "optim.updates_per_epohc=3"], "did you mean 'updates_per_epoch'?"),
        (["solver=own", "~target"], "set target=null"),
        (["solver=own", "--ddp-workers", "0"], "found 0"),
    ],
)
def test_a_mistake_is_answered_before_anything_is_made(arguments, sentence, tmp_path):
    result = invoke(*arguments)
    assert isinstance(result.exception, ConfigError) and sentence in str(result.exception)
    assert experiments(tmp_path) == []


def test_help_has_examples():
    text = invoke("--help").output
    assert "solfa train solver=lm/debug" in text and "SOLFA_SEARCH_PATH" in text


def test_an_unexpected_error_is_a_sentence_that_says_where_its_traceback_is(tmp_path, solfa_main):
    code, output = solfa_main("train", "solver=own", "fail=true")
    assert code == 1 and "RuntimeError: asked to fail" in output and "Traceback" not in output
    (log,) = (tmp_path / "dora").rglob("solver.log.0")
    assert str(log) in output and "Traceback" in log.read_text()


def test_what_people_type_next_is_said_after_training():
    result = invoke("solver=own", "optim.epochs=1")
    assert "next: solfa info " in result.stdout
    assert "solfa generate" not in result.stdout  # this solver has nothing to generate with
