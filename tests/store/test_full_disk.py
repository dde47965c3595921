"""A full disk stops the write with an OSError, spoils nothing, and the same call finishes when there is room again."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from store_maker import MORE, SMALL, build_in_two_steps, tree

from solfa.store.dataset import open_dataset
from solfa.store.layout import is_dataset
from solfa.store.verification import verify

PAGE = os.sysconf("SC_PAGE_SIZE")
EXPECTED = {outcome.clip.id: outcome.array for outcome in SMALL + MORE}


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounting a tmpfs is not permitted: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, free_pages: int) -> Path:
    """Leave only so many pages free."""
    ballast = disk / "ballast"
    room = os.statvfs(disk)
    ballast.write_bytes(bytes(room.f_bavail * room.f_frsize - free_pages * PAGE))
    return ballast


def test_whichever_write_fails_nothing_is_spoiled_and_the_same_call_finishes(tiny_disk: Path, tmp_path: Path) -> None:
    clean = tree(build_in_two_steps(tmp_path / "clean"))
    failures = 0
    for free_pages in range(200):
        root = tiny_disk / "d"
        ballast = fill(tiny_disk, free_pages)
        try:
            build_in_two_steps(root)
        except OSError as error:
            assert error.errno == errno.ENOSPC
            failures += 1
            if is_dataset(root):
                committed = open_dataset(root, partial=True)
                assert all(np.array_equal(clip.array, EXPECTED[clip.id]) for clip in committed)
                assert all(problem.message.startswith("unfinished") for problem in verify(root).problems)
            ballast.unlink()
            build_in_two_steps(root)
            assert tree(root) == clean
            assert [path for path in (root / ".tmp").iterdir() if path.name.startswith("lease")] == []
        else:
            assert tree(root) == clean
            break
        shutil.rmtree(root)
    else:
        pytest.fail("the dataset never fitted")
    assert failures > 15
