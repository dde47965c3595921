"""Experiments are found and read from their folders alone."""

import json
import math
import os
import platform
import time

import pytest

from solfa.errors import ConfigError, SolfaError
from solfa.xp.failure import forget_failure, record_failure
from solfa.xp.layout import LOCK
from solfa.xp.lock import locked
from solfa.xp.record import RECENT_SECONDS, as_epoch, find_experiment, list_experiments, read_experiment


@pytest.fixture
def xps_dir(tmp_path):
    return tmp_path / "dora" / "xps"


def test_an_experiment_is_found_by_signature_beginning_and_path(make_experiment, xps_dir, monkeypatch):
    folder, other = make_experiment("9521b0af"), make_experiment("95aa0001")
    make_experiment("95")
    for text in ("9521b0af", "9521", "//sig/9521b0af", str(folder), f"{folder}/"):
        assert find_experiment(xps_dir, text) == folder
    assert find_experiment(xps_dir, "95").name == "95", "a whole signature is not the beginning of another"
    monkeypatch.chdir(other)
    assert find_experiment(xps_dir, ".") == other


def test_what_cannot_be_found_is_answered_with_what_there_is(make_experiment, xps_dir, tmp_path):
    with pytest.raises(ConfigError, match=f"ab: .*no experiments in {xps_dir}"):
        find_experiment(xps_dir, "ab")
    make_experiment("9521b0af")
    make_experiment("95aa0001")
    with pytest.raises(ConfigError, match=r"95: 2 experiments .*\(95\w+, 95\w+\)"):
        find_experiment(xps_dir, "95")
    with pytest.raises(ConfigError, match=r"9521b0bf: no such experiment.*did you mean 9521b0af\?"):
        find_experiment(xps_dir, "9521b0bf")
    with pytest.raises(ConfigError, match="no such experiment"):
        find_experiment(xps_dir, str(tmp_path))


def test_experiments_are_listed_the_latest_first_and_other_folders_not_at_all(make_experiment, xps_dir):
    assert list_experiments(xps_dir) == []
    for age, signature in enumerate(("aa", "bb", "cc")):
        os.utime(make_experiment(signature) / ".argv.json", (0, 1_000_000 - age))
    (xps_dir / "not_one").mkdir()
    (xps_dir / "file").write_text("")
    assert [folder.name for folder in list_experiments(xps_dir)] == ["aa", "bb", "cc"]


def test_a_folder_is_read_with_all_that_is_in_it(make_experiment):
    history = [{"train": {"loss": 3.0, "inner": {"deep": 1}}}, {"train": {"loss": math.nan}, "valid": {"loss": 2}}]
    folder = make_experiment("aa", "solver=lm", "seed=3", history=history, config={"optim": {"epochs": 5}})
    for name in ("checkpoint.pt", "checkpoint_0002.pt", "best.pt", ".checkpoint.pt.77.abcd"):
        (folder / name).write_bytes(b"0")
    (folder / "samples/2").mkdir(parents=True)
    (folder / "samples/2/a.wav").write_bytes(b"")
    (folder / "samples/2/a.png").write_bytes(b"")
    record = read_experiment(folder)
    assert (record.signature, record.overrides, record.planned_epochs) == ("aa", ("solver=lm", "seed=3"), 5)
    assert record.history[0] == {"train": {"loss": 3.0, "inner.deep": 1.0}}
    assert math.isnan(record.history[1]["train"]["loss"]) and record.history[1]["valid"] == {"loss": 2.0}
    assert [path.name for path in record.checkpoints] == ["best.pt", "checkpoint.pt", "checkpoint_0002.pt"]
    assert [path.name for path in record.clips] == ["a.wav"] and record.samples == folder / "samples"
    (folder / "samples/index.html").write_text("")
    assert record.samples.name == "index.html"
    assert record.faults == ()


def test_the_state_follows_from_epochs_lock_and_failure(make_experiment):
    assert read_experiment(make_experiment("aa")).state(1e9) == "never ran"
    folder = make_experiment("bb", history=[{"train": {"loss": 1}}], config={"optim": {"epochs": 2}})
    assert read_experiment(folder).state(time.time()) == "stopped", "however recently it wrote"
    with locked(folder):
        assert read_experiment(folder).state_words(0.0) == "running"
    assert read_experiment(folder).state(0.0) == "stopped", "it ended in an orderly way"
    (folder / LOCK).write_text(json.dumps({"host": platform.node(), "process": 12}))
    assert read_experiment(folder).state(0.0) == "dead"
    record_failure(folder, SolfaError("found\nnan"))
    assert read_experiment(folder).state_words(0.0) == "failed: found nan"
    (folder / "history.json").write_text(json.dumps([{"train": {"loss": 1}}] * 2))
    assert read_experiment(folder).state(0.0) == "done"
    forget_failure(folder)
    assert read_experiment(folder).failure is None


def test_a_run_on_another_machine_is_running_while_it_writes_and_unknown_afterwards(make_experiment):
    folder = make_experiment("bb", history=[{"train": {"loss": 1}}], config={"optim": {"epochs": 2}})
    (folder / LOCK).write_text(json.dumps({"host": "node17", "process": 12}))
    os.utime(folder / "history.json", (0, 1_000_000))
    record = read_experiment(folder)
    assert record.state_words(1_000_000 + RECENT_SECONDS / 2) == "running on node17"
    assert record.state_words(1_000_000 + RECENT_SECONDS * 2).startswith("unknown: process 12 on node17")


@pytest.mark.parametrize("text", ["[{", "{}", "\xff"])
def test_a_damaged_file_is_a_fault_and_the_rest_is_read(text, make_experiment):
    folder = make_experiment("aa", "seed=1", config={"a": 1})
    (folder / "history.json").write_bytes(text.encode("latin-1"))
    record = read_experiment(folder)
    assert (record.history, record.overrides, record.config) == ((), ("seed=1",), {"a": 1})
    (fault,) = record.faults
    assert fault.startswith(f"{folder / 'history.json'}: ")


def test_entries_of_a_history_are_brought_to_one_form():
    assert as_epoch({"loss": 1, "train": {"note": "words", "flag": True, "none": None}}) == {
        "": {"loss": 1.0},
        "train": {"note": None, "flag": None, "none": None},
    }
