"""A collection of several shards that take a second each, its dataset made on this machine, and real clusters."""

import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import pytest

import solfa
from solfa.encoding.progress import EncodeReport
from tests.conftest import write_tone
from tests.scale.clusters.encode_runs import CODEC
from tests.scale.clusters.ray_nodes import RayCluster
from tests.scale.clusters.slurm_nodes import PACKAGES, SlurmCluster
from tests.scale.debian_packages import UnavailableError, unpack
from tests.trees import tree_digest


class Local(NamedTuple):
    """What a run on this machine gives."""

    dataset: Path
    report: EncodeReport
    files: dict[str, str]


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty-eight recordings of about 30 s: eight shards of less than two minutes, and one broken file."""
    folder = tmp_path_factory.mktemp("clusters") / "audio"
    for index in range(28):
        write_tone(folder / f"take{index:02d}.wav", 30.0 - 0.25 * (index % 3), 16000)
    (folder / "take99.wav").write_bytes(b"not audio at all")
    return folder


@pytest.fixture(scope="session")
def local(recordings: Path) -> Local:
    dest = recordings.parent / "local.solfa"
    report = solfa.encode(recordings, dest, codec=CODEC)
    assert len(list((dest / "commit").iterdir())) >= 6
    return Local(dest, report, tree_digest(dest))


@pytest.fixture(scope="session")
def ray_cluster(object_server: dict[str, str]) -> Generator[RayCluster, None, None]:
    """Two nodes that see this machine's files, and the object store."""
    pytest.importorskip("ray", reason="Ray is not installed here: pip install 'solfa[ray]'")
    folder = Path(tempfile.mkdtemp(prefix="ray-"))  # the names of Ray's sockets must not get long
    try:
        with RayCluster(folder, object_server) as cluster:
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def slurm(request: pytest.FixtureRequest) -> Generator[SlurmCluster, None, None]:
    """Two nodes with two cores each, and `sacct`."""
    try:
        root = unpack(PACKAGES, request.config.cache.mkdir("slurm"))
    except UnavailableError as reason:
        pytest.skip(f"Slurm cannot be had here: {reason}")
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    try:
        with SlurmCluster(root, folder) as cluster:
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)
