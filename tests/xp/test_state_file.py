"""A state is there whole or not at all, and reading one never runs what somebody put into it."""

import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from solfa.environment.faults import disk_fault
from solfa.errors import StoreError
from solfa.xp.layout import copied_epochs, copy_path
from solfa.xp.state_file import read_state, remove_leftovers, superfluous, write_state
from tests.solvers.conftest import equal

POINTS = ("checkpoint:before-rename", "checkpoint:after-rename")
# Forks children that die, one per point; in a process of its own, because the tests' process has threads.
DRIVER = """
import os, sys
from pathlib import Path
from solfa.files.crash_points import VARIABLE
from solfa.xp.state_file import write_state

for point in sys.argv[2:]:
    path = Path(sys.argv[1]) / point / "checkpoint.pt"
    write_state(path, {"number": 1})
    child = os.fork()
    if child == 0:
        os.environ[VARIABLE] = point
        write_state(path, {"number": 2})
        os._exit(0)
    print(os.waitpid(child, 0)[1])
"""


class Malicious:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder per point at which the writer of a second state was killed."""
    folder = tmp_path_factory.mktemp("killed")
    run = subprocess.run([sys.executable, "-c", DRIVER, str(folder), *POINTS], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert [os.WTERMSIG(int(status)) for status in run.stdout.split()] == [signal.SIGKILL] * 2
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("point", "number", "leftovers"), [(POINTS[0], 1, 1), (POINTS[1], 2, 0)])
def test_a_writer_killed_around_the_rename_leaves_one_whole_state(
    killed: Path, point: str, number: int, leftovers: int
) -> None:
    folder = killed / point
    assert read_state(folder / "checkpoint.pt") == {"format": 1, "number": number}
    assert len(list(folder.iterdir())) == 1 + leftovers
    remove_leftovers(folder)
    assert [path.name for path in folder.iterdir()] == ["checkpoint.pt"]


def test_what_is_written_is_read_to_the_last_bit(tmp_path: Path) -> None:
    module = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(module.parameters())
    module(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    state = {"model": module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "notes": [None, "a", 0.1]}
    write_state(tmp_path / "new/checkpoint.pt", state)
    found = read_state(tmp_path / "new/checkpoint.pt")
    assert found.pop("format") == 1
    assert equal({**found, "model": dict(found["model"])}, {**state, "model": dict(state["model"])})


def test_a_write_that_fails_leaves_the_old_state_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    write_state(path, {"number": 1})
    with pytest.raises((AttributeError, pickle.PicklingError)):
        write_state(path, {"number": lambda: 2})
    assert read_state(path)["number"] == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("save", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value, 2))])
def test_a_file_with_code_is_refused_and_the_code_not_run(save: Callable[[Any, Path], Any], tmp_path: Path) -> None:
    save({"format": 1, "states": Malicious(tmp_path / "ran")}, tmp_path / "best.pt")
    with pytest.raises(StoreError, match=r"^[^\n]*best\.pt: [^\n]*found [^\n]+$") as refused:
        read_state(tmp_path / "best.pt")
    assert not (tmp_path / "ran").exists()
    assert "weights_only" not in str(refused.value), "nobody is to be told to read it unsafely"


def test_the_code_in_a_file_is_named(tmp_path: Path) -> None:
    torch.save({"format": 1, "states": Malicious(tmp_path / "ran")}, tmp_path / "best.pt")
    with pytest.raises(StoreError, match=r"code in it \((posix|nt)\.system\)"):
        read_state(tmp_path / "best.pt")


@pytest.mark.parametrize(
    "content",
    [b"", b"hello world\n", b'{"epoch": 1}', b"RIFF\x24\0\0\0WAVEfmt ", b"\x80\x02\xff", b"PK\x03\x04" + bytes(99)],
    ids=["empty", "text", "json", "wav", "pickle", "zip"],
)
def test_files_of_another_kind_get_one_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(StoreError, match=r"^[^\n]*x\.pt: [^\n]*found another kind of file[^\n]+$"):
        read_state(tmp_path / "x.pt")


def test_a_state_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    write_state(path, {"weights": torch.zeros(1000)})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(StoreError, match=r"checkpoint\.pt: .*damaged"):
        read_state(path)


@pytest.mark.parametrize(("value", "found"), [({"format": 2}, "2"), ({"model": {}}, "None"), ([1], "'list'")])
def test_tensors_of_another_format_are_refused(value: Any, found: str, tmp_path: Path) -> None:
    torch.save(value, tmp_path / "x.pt")
    with pytest.raises(StoreError, match=rf"x\.pt: .*format 1, found {found}"):
        read_state(tmp_path / "x.pt")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pt"):
        read_state(tmp_path / "nowhere.pt")


def test_copies_are_found_by_their_epoch_and_nothing_else_is_one(tmp_path: Path) -> None:
    for epoch in (12, 3, 10000):
        copy_path(tmp_path, epoch).touch()
    for name in ("checkpoint.pt", "checkpoint_x.pt", "checkpoint_1.pt.old", "best.pt"):
        (tmp_path / name).touch()
    assert copied_epochs(tmp_path) == [3, 12, 10000]


@pytest.mark.parametrize(("keep_last", "removed"), [(None, []), (1, [2, 4, 9]), (2, [2, 4]), (4, []), (5, [])])
def test_only_the_last_copies_are_kept(keep_last: int | None, removed: list[int]) -> None:
    assert superfluous([9, 2, 10, 4], keep_last) == removed
    assert superfluous([], keep_last) == []


def test_leftovers_are_removed_and_everything_else_stays(tmp_path: Path) -> None:
    kept = ["checkpoint.pt", "best.pt", ".argv.json", "history.json", "solver.log.0", ".hidden"]
    for name in [*kept, ".checkpoint.pt.123.abcd", ".best.pt.9.ff00", ".history.json.4.0a0b", ".checkpoint.pt.7"]:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_a_disk_without_space_leaves_the_last_state_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    write_state(path, {"number": 1})
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
    try:
        with pytest.raises((OSError, RuntimeError)) as raised:
            write_state(path, {"weights": torch.zeros(10**6)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert disk_fault(raised.value) is not None
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
