"""Where results come from."""

import shutil
import subprocess
from pathlib import Path

import pytest

from solfa.version import __version__
from solfa.xp.provenance import last_start, read_commit, read_software, read_starts, record_start, spell_command


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("place", ["solfa", "src/solfa"])
def test_the_commit_is_that_of_the_packages_own_checkout(place, tmp_path):
    package = tmp_path / place
    package.mkdir(parents=True)
    assert read_commit(package) == (None, None)
    git(tmp_path, "init", "-q")
    assert read_commit(package) == (None, False), "nothing is committed yet"
    (package / "x.py").write_text("x = 1")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "x")
    (package / "untracked").touch()
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert read_commit(package) == (commit, False)
    (package / "x.py").write_text("x = 2")
    assert read_commit(package) == (commit, True)
    installed = tmp_path / ".venv/lib/site-packages/solfa"
    installed.mkdir(parents=True)
    assert read_commit(installed) == (None, None), "the repository around a virtual environment is another one"


def test_the_software_is_told_in_a_line_and_in_plain_values():
    software = read_software()
    assert str(software).startswith(f"solfa {__version__}") and software.host in str(software)
    assert all(value is None or isinstance(value, str | bool) for value in software.values().values())


def test_a_command_names_its_program_and_not_the_home_directory():
    home = Path("/home/ada")
    argv = ["/home/ada/.venv/bin/solfa", "train", "dset.train=/home/ada/my music"]
    assert spell_command(argv, home) == "solfa train 'dset.train=~/my music'"
    assert spell_command(["/x/site-packages/dora/__main__.py", "seed=3"], home) == "dora seed=3"
    assert spell_command([], home) == "''"


def test_a_start_is_recorded_if_it_differs_from_the_last_one(tmp_path):
    assert read_starts(tmp_path) == [] and last_start(tmp_path) == {}
    for host in ("a", "a", "b", "a"):
        record_start(tmp_path, {"host": host, "command": "solfa train"})
    assert [start["host"] for start in read_starts(tmp_path)] == ["a", "b", "a"]
    assert last_start(tmp_path) == {"host": "a"}
    (tmp_path / "provenance.json").write_text("[{")
    assert read_starts(tmp_path) == []
