"""The same promises on Ceph's object gateway, another server by other people."""

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from benchmarks.object_store.distance import Distance
from solfa.errors import StoreError
from solfa.files import BucketStore, store_at
from solfa.store.dataset import open_dataset
from solfa.store.gc import collect_garbage
from solfa.store.verification import verify
from tests import object_server as servers
from tests.scale.stores.ceph_gateway import CephGateway
from tests.scale.stores.conftest import FLAGS, Local, Start
from tests.scale.stores.contents import bucket_files

pytestmark = pytest.mark.scale


@pytest.fixture
def bucket(ceph: CephGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    for name, value in {**ceph.environment, "SOLFA_CACHE_DIR": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    return "s3://tests"


def test_the_first_object_of_a_name_stays(bucket: str) -> None:
    store = store_at(f"{bucket}/store")
    assert store.create("a", b"first") and store.create("a", b"first") and not store.create("a", b"other")
    assert store.read("a") == b"first"
    assert store.read_ranges("a", [(1, 3), (4, 9)]) == [b"ir", b"t"]
    assert store.names("") == ["a"] and [entry.size_bytes for entry in store.list()] == [5]
    store.replace("a", b"second")
    assert store.read("a") == b"second"
    store.delete(["a"])
    assert store.head("a") is None


def test_a_command_that_is_killed_is_finished_by_two_at_once(
    bucket: str, ceph: CephGateway, local: Local, start: Start
) -> None:
    dest, moment = f"{bucket}/music.solfa", threading.Event()
    sent = [0]

    def count(number: int) -> None:
        sent[0] += number
        if sent[0] > 6_000_000:
            moment.set()

    with Distance(ceph.port, 0.01, count) as proxy:
        way = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
        killed = start("encode", local.audio, dest, *FLAGS, **way)
        assert moment.wait(300)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        both = [start("encode", local.audio, dest, *FLAGS, **way) for _ in range(2)]
        for process in both:
            _, said = process.communicate(timeout=600)
            assert process.returncode == 0, said
    assert bucket_files(dest) == local.files and verify(dest).problems == []
    collect_garbage(dest)
    here, there = open_dataset(local.dataset), open_dataset(dest)
    assert here.digest == there.digest
    for index in (0, len(here) // 2, len(here) - 1):
        np.testing.assert_array_equal(here[index].array, there[index].array)


def test_a_bucket_that_vanishes_stops_an_encoder_with_a_sentence(
    bucket: str, ceph: CephGateway, local: Local, start: Start
) -> None:
    servers.ask(ceph.port, "PUT", "/fleeting")
    store = BucketStore("s3://fleeting/x")
    assert store.create("a", b"")
    store.delete(["a"])
    servers.ask(ceph.port, "DELETE", "/fleeting")
    with pytest.raises(StoreError, match="there is no s3://fleeting"):
        store.create("b", b"")
    process = start("encode", local.audio, "s3://fleeting/music.solfa", *FLAGS)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 2 and "there is no s3://fleeting" in said
