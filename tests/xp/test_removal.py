"""Experiments are removed whole, and nothing else is."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from solfa.errors import ConfigError, StoreError
from solfa.xp.layout import LOCK
from solfa.xp.lock import locked
from solfa.xp.record import folder_bytes, list_experiments
from solfa.xp.removal import clean_removed, find_removable, remove_experiment, users_of

REMOVE = "import sys; from solfa.xp.removal import remove_experiment; remove_experiment(sys.argv[1])"


@pytest.fixture
def xps_dir(tmp_path: Path) -> Path:
    return tmp_path / "dora" / "xps"


def test_a_folder_is_removed_with_all_that_is_in_it_and_what_links_point_to_stays(make_experiment, xps_dir, tmp_path):
    folder, other = make_experiment("9521b0af"), make_experiment("c0ffee12")
    (folder / "samples/2").mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/dear.txt").write_text("dear")
    (folder / "link").symlink_to(tmp_path / "mine")
    remove_experiment(folder)
    assert list(xps_dir.iterdir()) == [other]
    assert (tmp_path / "mine/dear.txt").read_text() == "dear"


def test_what_a_killed_removal_left_is_not_listed_and_the_next_one_deletes_it(make_experiment, xps_dir):
    folder, other = make_experiment("9521b0af"), make_experiment("c0ffee12")
    (xps_dir / ".mine").mkdir()
    variables = {"SOLFA_CRASH_AT": "removal:after-rename", "PYTHONPATH": ":".join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", REMOVE, str(folder)], env=variables, check=False)
    assert killed.returncode == -9
    assert list_experiments(xps_dir) == [other] and len(list(xps_dir.iterdir())) == 3
    clean_removed(xps_dir)
    assert sorted(xps_dir.iterdir()) == [xps_dir / ".mine", other]


def test_what_is_running_stays(make_experiment):
    folder = make_experiment("9521b0af")
    with locked(folder), pytest.raises(ConfigError, match="running"):
        remove_experiment(folder)
    (folder / LOCK).write_text(json.dumps({"host": "node17", "process": 3}))
    with pytest.raises(ConfigError, match=r"process 3 on node17 .*\.lock"):
        remove_experiment(folder)
    assert folder.is_dir()
    (folder / LOCK).write_text(json.dumps({"host": platform.node(), "process": 3}))
    remove_experiment(folder)
    assert not folder.exists(), "its process was killed"


def test_links_and_other_folders_are_refused(make_experiment, xps_dir, tmp_path):
    folder = make_experiment("9521b0af")
    (xps_dir / "aaaa").symlink_to(folder)
    elsewhere = tmp_path / "model"
    elsewhere.mkdir()
    (elsewhere / ".argv.json").write_text("[]")
    (xps_dir / "bbbb").mkdir()
    (xps_dir / "bbbb/config.json").write_text("{}")
    for text, fault, words in (
        ("aaaa", StoreError, "link"),
        (str(xps_dir / "aaaa"), StoreError, "link"),
        (str(elsewhere), ConfigError, "elsewhere"),
        ("bbbb", ConfigError, r"no \.argv\.json"),
        ("", ConfigError, "no such experiment"),
        (str(tmp_path), ConfigError, "no such experiment"),
    ):
        with pytest.raises(fault, match=words):
            find_removable(xps_dir, text)
    for text in ("95", "//sig/9521", str(folder)):
        assert find_removable(xps_dir, text) == folder
    assert folder.is_dir() and elsewhere.is_dir()


def test_what_refers_to_an_experiment_is_named(make_experiment, xps_dir):
    folder = make_experiment("9521b0af", config={"continue_from": None})
    tuned = make_experiment("c0ffee12", config={"continue_from": str(folder / "best.pt")})
    make_experiment("c0ffee13", config={"dset": {"train": [{"path": "music/9521b0af", "codec": f"{folder}:bits=4"}]}})
    grid = xps_dir.parent / "grids" / "lm.debug"
    grid.mkdir(parents=True)
    (grid / "9521b0af").symlink_to(folder)
    assert sorted(users_of(folder)) == [
        "continue_from of c0ffee12",
        "dset.train.0.codec of c0ffee13",
        "the grid lm.debug",
    ]
    assert len(users_of(folder, without=[tuned])) == 2
    remove_experiment(folder)
    assert not (grid / "9521b0af").is_symlink()


def test_a_file_with_two_names_counts_once(tmp_path):
    (tmp_path / "a").mkdir()
    empty = folder_bytes(tmp_path)
    (tmp_path / "a/one").write_bytes(b"0" * 1000)
    (tmp_path / "two").hardlink_to(tmp_path / "a/one")
    assert folder_bytes(tmp_path) - empty == 1000
