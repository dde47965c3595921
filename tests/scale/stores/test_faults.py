"""Whatever happens to encoders and servers, a dataset in a bucket ends with the bytes of one in a folder."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.object_store.distance import Distance
from solfa.errors import StoreError
from solfa.files import store_at
from solfa.store.dataset import open_dataset
from solfa.store.status import read_status
from solfa.store.verification import verify
from tests import object_server as servers
from tests.scale.stores.conftest import FLAGS, Local, OwnServer, Start
from tests.scale.stores.contents import bucket_files, copied, processes_below

pytestmark = pytest.mark.scale

ROOT = Path(__file__).parents[3]
SECRETS = (servers.SECRET, "another-secret")


@pytest.fixture
def reach(own_server: OwnServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Distance]:
    """Lead to the own server over a way of 20 ms, and tell when so many bytes went there."""
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path / "cache"))

    def lead(sent_bytes: int, then: Callable[[], None]) -> Distance:
        left = [sent_bytes]

        def count(number: int) -> None:
            left[0] -= number
            if left[0] <= 0 < left[0] + number:
                then()

        return Distance(own_server.port, 0.02, count)

    for name, value in own_server.environment.items():
        monkeypatch.setenv(name, value)
    return lead


def through(proxy: Distance) -> dict[str, str]:
    return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}


def finished(process: "subprocess.Popen[str]") -> str:
    """Wait for a command that has to succeed; return what it said."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out + err


def test_an_encoder_that_is_killed_is_made_up_for(reach: Callable[..., Distance], local: Local, start: Start) -> None:
    dest, moment = "s3://tests/killed.solfa", threading.Event()
    with reach(5_000_000, moment.set) as proxy:
        first = start("encode", local.audio, dest, *FLAGS, **through(proxy))
        assert moment.wait(200)
        encoders = processes_below(first.pid, "worker_main")
        assert encoders
        for encoder in encoders:
            os.kill(encoder, signal.SIGKILL)
        first.communicate(timeout=300)
        assert bucket_files(dest) != local.files or first.returncode == 0
        finished(start("encode", local.audio, dest, *FLAGS, **through(proxy)))
    assert bucket_files(dest) == local.files and verify(dest).problems == []


def test_a_command_whose_processes_are_all_killed_is_finished_by_the_next(
    reach: Callable[..., Distance], local: Local, start: Start
) -> None:
    dest = "s3://tests/all-killed.solfa"
    for sent_bytes in (300_000, 6_000_000, 9_000_000):
        moment = threading.Event()
        with reach(sent_bytes, moment.set) as proxy:
            process = start("encode", local.audio, dest, *FLAGS, **through(proxy))
            moment.wait(200)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finished(start("encode", local.audio, dest, *FLAGS))
    assert bucket_files(dest) == local.files and verify(dest).problems == []


def test_a_server_that_is_killed_in_the_middle_of_a_put_and_comes_back_costs_nothing(
    reach: Callable[..., Distance], own_server: OwnServer, local: Local, start: Start
) -> None:
    dest, moment = "s3://tests/server.solfa", threading.Event()

    def strike() -> None:
        own_server.kill()
        moment.set()

    # A shard has 3.8 MB: this is in the middle of one.
    with reach(6_000_000, strike) as proxy:
        process = start("encode", local.audio, dest, *FLAGS, **through(proxy))
        assert moment.wait(200)
        own_server.start()
        finished(process)
    assert bucket_files(dest) == local.files and verify(dest).problems == []


def test_credentials_that_expire_end_the_run_with_a_sentence_and_new_ones_finish_it(
    reach: Callable[..., Distance], own_server: OwnServer, local: Local, start: Start
) -> None:
    dest, moment = "s3://tests/expired.solfa", threading.Event()

    def expire() -> None:
        own_server.let_in("somebody-else", "another-secret")
        moment.set()

    with reach(6_000_000, expire) as proxy:
        process = start("encode", local.audio, dest, *FLAGS, **through(proxy))
        assert moment.wait(200)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 2 and "refuses these credentials" in err, err
        assert not any(secret in out + err for secret in SECRETS)
        renewed = {"AWS_ACCESS_KEY_ID": "somebody-else", "AWS_SECRET_ACCESS_KEY": "another-secret"}
        finished(start("encode", local.audio, dest, *FLAGS, **through(proxy), **renewed))
    own_server.let_in(servers.KEY, servers.SECRET)
    assert read_status(dest).failed_clips == 0
    assert bucket_files(dest) == local.files and verify(dest).problems == []


def test_two_commands_at_once_share_the_work(bucket: str, local: Local, start: Start) -> None:
    dest = f"{bucket}/two.solfa"
    both = [start("encode", local.audio, dest, *FLAGS) for _ in range(2)]
    for process in both:
        finished(process)
    assert bucket_files(dest) == local.files and verify(dest).leftovers == []


def test_a_bucket_that_vanishes_is_a_sentence_and_its_dataset_is_made_again(
    own_server: OwnServer, local: Local, start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {**own_server.environment, "SOLFA_CACHE_DIR": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    servers.ask(own_server.port, "PUT", "/fleeting")
    dest = "s3://fleeting/music.solfa"
    copied(local.dataset, dest)
    dataset = open_dataset(dest)
    assert len(dataset[0].array)
    whole = store_at("s3://fleeting")
    whole.delete([entry.key for entry in whole.list()])
    servers.ask(own_server.port, "DELETE", "/fleeting")
    with pytest.raises(StoreError, match="there is no s3://fleeting"):
        dataset[len(dataset) - 1].array.sum()
    with pytest.raises(StoreError, match="there is no s3://fleeting"):
        open_dataset(dest)
    servers.ask(own_server.port, "PUT", "/fleeting")
    finished(start("encode", local.audio, dest, *FLAGS))
    assert bucket_files(dest) == local.files


def test_a_full_disk_below_the_cache_changes_no_batch(bucket: str, local: Local, tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a small disk takes root and unshare")
    remote = copied(local.dataset, f"{bucket}/music.solfa")
    (tmp_path / "small").mkdir()
    # Twenty megabytes of dataset for six of disk, of which the cache knows nothing.
    script = 'mount -t tmpfs -o size=6m tmpfs "$1" && shift && exec "$@"'
    inner = [sys.executable, "-m", "tests.scale.stores.full_disk", local.dataset, remote]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", tmp_path / "small", *inner],
        env={**os.environ, "SOLFA_CACHE_DIR": str(tmp_path / "small"), "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["equal", "full"]
