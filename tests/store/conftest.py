"""Lets the tests of this folder import `store_maker`, and offers a small finished dataset."""

import os
import shutil
import sys
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent))

from store_maker import SMALL, build

from tests.disks import no_waiting_for_disks  # noqa: F401


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine clips in three shards, one of them failed; not to be changed."""
    return build(tmp_path_factory.mktemp("pristine") / "small.solfa", SMALL)


@pytest.fixture
def small(pristine: Path, tmp_path: Path) -> Path:
    """A copy of `pristine` to do anything with."""
    return Path(shutil.copytree(pristine, tmp_path / "small.solfa"))
