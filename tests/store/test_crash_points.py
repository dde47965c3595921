"""Killed at any named point, the same call finishes the dataset to the same bytes, and gc leaves no trace."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from store_maker import build_in_two_steps, tree

import solfa
from solfa.store.dataset import open_dataset
from solfa.store.gc import collect_garbage, leftovers
from solfa.store.layout import is_dataset
from solfa.store.verification import verify

PACKAGE = Path(solfa.__file__).parent
NAMES = sorted(
    {
        name
        for folder in ("store", "files")
        for path in (PACKAGE / folder).glob("*.py")
        for name in re.findall(r'crash_point\("([^"]+)"\)', path.read_text())
        if not name.startswith("repair:")
    }
)
"""Points that writing a dataset passes; those of a repair are tested with whole repairs."""


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = build_in_two_steps(tmp_path_factory.mktemp("clean") / "d.solfa")
    collect_garbage(root)
    return tree(root, temporary=True)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """The dataset of every pass of every point at which its writer was killed."""
    folder = tmp_path_factory.mktemp("killed")
    driver = [sys.executable, str(Path(__file__).with_name("crash_driver.py")), str(folder), str(folder), *NAMES]
    points = subprocess.run(driver, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return {name: [folder / point / "d.solfa" for point in points if point.split("#")[0] == name] for name in NAMES}


def test_the_points_are_found() -> None:
    assert {"publish:before-link", "publish:after-link", "shard:before-commit", "manifest:before"} <= set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_killed_at_every_pass_and_repeated_the_tree_is_that_of_a_clean_run(
    name: str, tmp_path: Path, clean: dict[str, str], killed: dict[str, list[Path]]
) -> None:
    assert killed[name], f"nothing ever passed {name}"
    for root in killed[name]:
        found = verify(root).problems if is_dataset(root) else []
        assert all(problem.message.startswith("unfinished") for problem in found), (root, found)
        repeat_then_collect(Path(shutil.copytree(root, tmp_path / root.parent.name)), clean)
        collect_then_repeat(root, clean)


def repeat_then_collect(root: Path, clean: dict[str, str]) -> None:
    build_in_two_steps(root)
    assert tree(root).items() == {name: digest for name, digest in clean.items() if name != ".tmp"}.items()
    assert verify(root).problems == []
    assert len(open_dataset(root)) == 6
    collect_garbage(root)
    assert tree(root, temporary=True) == clean


def collect_then_repeat(root: Path, clean: dict[str, str]) -> None:
    if is_dataset(root):
        collect_garbage(root)
        assert leftovers(root) == []
    build_in_two_steps(root)
    collect_garbage(root)
    assert tree(root, temporary=True) == clean
