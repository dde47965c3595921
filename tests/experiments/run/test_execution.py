"""An experiment from its overrides to its folder, with a solver of a user's own."""

import errno
import json
import platform
from pathlib import Path

import pytest

import solfa
from solfa.environment.faults import fault_sentence
from solfa.errors import ConfigError
from solfa.experiments.run.execution import what_to_do
from solfa.xp.provenance import read_starts
from solfa.xp.record import read_experiment
from solfa.xp.state_file import read_state
from tests.experiments.own_folder import OWN, make_main

pytestmark = pytest.mark.slow

ARGV = ["solver=own", "optim.epochs=2"]


def run(main, *more: str) -> Path:
    xp = main.compose([*ARGV, *more])
    main.start(xp)
    return xp.folder


def test_a_run_leaves_its_settings_its_history_and_its_log(main):
    folder = run(main)
    assert json.loads((folder / ".argv.json").read_text()) == ARGV
    assert len(json.loads((folder / "history.json").read_text())) == 2
    stored = json.loads((folder / "config.json").read_text())
    assert (stored["solver"], stored["optim"]["epochs"], "dora" in stored) == ("own_solver:OwnSolver", 2, False)
    assert "done: 2 epochs" in (folder / "solver.log.0").read_text()


def test_where_a_run_comes_from_is_in_its_folder_its_log_and_its_checkpoint_and_nowhere_else(main):
    folder = run(main)
    (start,) = read_starts(folder)
    assert (start["experiment"], start["solfa"], start["host"]) == (folder.name, solfa.__version__, platform.node())
    assert start["data"] == {} and start["torch"] and start["command"]
    stored = read_state(folder / "checkpoint.pt")["provenance"]
    assert stored == {key: value for key, value in start.items() if key not in ("started", "data")}
    assert f"solfa {solfa.__version__}" in (folder / "solver.log.0").read_text()
    assert "host" not in json.loads((folder / "config.json").read_text())
    run(main)
    assert read_starts(folder) == [start], "nothing has changed"


def test_a_finished_run_that_is_started_again_trains_no_more(main):
    history = (run(main) / "history.json").read_text()
    assert (run(main, "device=auto") / "history.json").read_text() == history


def test_a_default_that_changed_under_a_checkpoint_stops_the_run(main, monkeypatch, tmp_path):
    folder = run(main)
    conf = tmp_path / "conf" / "solver"
    conf.mkdir(parents=True)
    (conf / "own.yaml").write_text((OWN / "conf/solver/own.yaml").read_text().replace("target: 3.0", "target: 4.0"))
    monkeypatch.setenv("SOLFA_SEARCH_PATH", f"{tmp_path / 'conf'}:{OWN / 'conf'}")
    changed = make_main()
    with pytest.raises(ConfigError, match=r"target was 3\.0, now 4\.0.*on_changed_default=keep"):
        run(changed)
    assert run(changed, "on_changed_default=keep") == folder
    assert json.loads((folder / "config.json").read_text())["target"] == 3.0
    assert run(changed, "on_changed_default=adopt") == folder
    assert json.loads((folder / "config.json").read_text())["target"] == 4.0


def test_a_run_that_is_refused_leaves_nothing_unless_its_folder_was_there(main):
    refused = main.compose([*ARGV, "refuse=true"])
    with pytest.raises(ConfigError, match="asked to refuse"):
        main.start(refused)
    assert list(refused.folder.parent.iterdir()) == []
    main.init_xp(refused)
    with pytest.raises(ConfigError, match="asked to refuse"):
        main.start(refused)
    assert read_experiment(refused.folder).state_words(0.0) == "failed: refuse: asked to refuse"


def test_a_fault_of_a_solver_is_in_the_log_with_its_traceback(main):
    xp = main.compose([*ARGV, "fail=true"])
    with pytest.raises(RuntimeError, match="asked to fail"):
        main.start(xp)
    log = (xp.folder / "solver.log.0").read_text()
    assert " ERROR " in log and "Traceback" in log and "asked to fail" in log
    told = read_experiment(xp.folder).state_words(0.0)
    assert told.startswith("failed: ") and "unexpected" in told and "asked to fail" in told and "solver.log.0" in told


def test_a_run_that_stopped_says_where_its_traceback_is_and_what_was_kept(main, tmp_path):
    xp = main.compose([*ARGV, "fail=true"])
    with pytest.raises(RuntimeError) as raised:
        main.start(xp)
    sentence = fault_sentence(raised.value)
    assert "asked to fail" in sentence and str(xp.folder / "solver.log.0") in sentence
    assert "last good state" not in sentence
    (tmp_path / "checkpoint.pt").touch()
    memory, disk = (what_to_do(error, tmp_path) for error in (MemoryError(), OSError(errno.ENOSPC, "full")))
    assert "dataset.batch_size" in memory[0] and "space" in disk[0]
    assert "same command" in memory[-1] and str(tmp_path / "checkpoint.pt") in disk[-1]


def test_a_solver_as_audiocraft_documents_it_trains_with_keys_of_its_own(main):
    xp = main.compose(["solver=literal", "net.dim=3"])
    main.start(xp)
    first, last = json.loads((xp.folder / "history.json").read_text())
    assert last["valid"]["loss"] < first["valid"]["loss"]
    assert last["generate"] == {} and last["train"]["lr"] == 0.0, "the schedule has come to its end"
    stored = json.loads((xp.folder / "config.json").read_text())
    assert stored["net"] == {"dim": 3, "options": {"out_features": 1}}
    log = (xp.folder / "solver.log.0").read_text()
    assert "no Config class" in log and "net, gain" in log
    assert log.count("does not call self.update") == 1


@pytest.mark.parametrize(
    ("override", "told"),
    [("gian=3", "did you mean 'gain'"), ("net.dmi=3", "did you mean 'dim'"), ("epochs=3", r"optim\.epochs")],
)
def test_a_mistyped_key_of_a_solver_that_takes_any_key_is_refused(main, override, told):
    with pytest.raises(ConfigError, match=rf"^{override}: .*{told}"):
        main.compose(["solver=literal", override])


def test_the_value_of_a_variable_is_stored_with_the_settings_and_nowhere_else(main, monkeypatch):
    monkeypatch.setenv("SECRET_TARGET", "2.718281828")
    xp = main.compose([*ARGV, "target=${oc.env:SECRET_TARGET}"])
    main.start(xp)
    holding = {path.name for path in xp.folder.rglob("*") if path.is_file() and b"2.718281828" in path.read_bytes()}
    assert {name for name in holding if not name.startswith("events.")} == {"config.json"}
    assert "${oc.env:SECRET_TARGET}" in (xp.folder / ".argv.json").read_text()
