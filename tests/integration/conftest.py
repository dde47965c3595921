"""A collection large enough for several shards, yet quick to encode, and commands in this process."""

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from solfa.demo.demo_paths import demo_folder
from tests.conftest import write_tone
from tests.disks import no_waiting_for_disks  # noqa: F401
from tests.integration.commands import solfa_here
from tests.ready_process import ReadyProcess

Solfa = Callable[..., str]


@pytest.fixture(scope="session")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadyProcess]:
    """A process that has imported everything, of which commands are forks."""
    process = ReadyProcess(tmp_path_factory.mktemp("ready"))
    yield process
    process.end()


@pytest.fixture(scope="session")
def several_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of about 15 s at 4 kHz: eight shards of three quarters of a minute, and one broken file."""
    folder = tmp_path_factory.mktemp("several") / "audio"
    for index in range(23):
        write_tone(folder / f"take{index:02d}.wav", 14.0 + 0.5 * (index % 5), 4000)
    (folder / "take99.wav").write_bytes(b"not audio at all")
    return folder


@pytest.fixture(scope="module")
def place_of_experiments(tmp_path_factory: pytest.TempPathFactory, demo_recordings: Path) -> Path:
    """A folder for the module's experiments, in which `//demo` need not be synthesised again."""
    folder = tmp_path_factory.mktemp("dora")
    shutil.copytree(demo_recordings, demo_folder(folder))
    return folder


@pytest.fixture
def solfa(dora_dir: Path) -> Solfa:
    """Run a command in this process, with experiments in the module's `dora_dir`; return what it printed."""
    return partial(solfa_here, dora_dir)
