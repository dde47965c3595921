"""A dataset in a real object store is the dataset that a folder holds: the same bytes, read, checked and collected."""

import pickle
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from store_maker import (
    MADE_BY,
    MORE,
    SMALL,
    bucket_tree,
    build,
    build_in_two_steps,
    codes_spec,
    files_of,
    info_of,
    tree,
)

import solfa
from solfa.errors import ConfigError, StoreError
from solfa.files import BucketStore, store_at
from solfa.store import array_dataset
from solfa.store.dataset import Dataset, open_dataset
from solfa.store.gc import collect_garbage, leftovers
from solfa.store.layout import create_info, expect_new_dataset
from solfa.store.lease import Lease, lease_key, live_leases
from solfa.store.shard_writer import ShardWriter
from solfa.store.status import read_status
from solfa.store.verification import verify


@pytest.fixture
def remote(bucket: str) -> str:
    return build(f"{bucket}/small.solfa", SMALL)


def cached(tmp_path: Path) -> int:
    """Count the files that this machine keeps."""
    return len(list((tmp_path / "cache").rglob("[0-9a-f]*")))


def test_it_has_the_bytes_of_a_local_one(remote: str, pristine: Path) -> None:
    assert bucket_tree(remote) == files_of(tree(pristine))
    assert open_dataset(remote).digest == open_dataset(pristine).digest


def test_its_clips_are_those_of_a_local_one(remote: str, pristine: Path) -> None:
    here, there = open_dataset(pristine), open_dataset(remote)
    assert there.ids() == here.ids() and there.failures() == here.failures()
    assert there.num_frames.tolist() == here.num_frames.tolist()
    for mine, theirs in zip(here, there, strict=True):
        np.testing.assert_array_equal(mine.array, theirs.array)
        assert mine.array.dtype == theirs.array.dtype and not theirs.array.flags.writeable
        assert (mine.id, mine.caption, mine.metadata) == (theirs.id, theirs.caption, theirs.metadata)
        theirs.check()
    assert there["clip/003"].num_frames == 7 and len(there[2:5]) == 3
    assert repr(there).startswith(f"Dataset('{remote}', 8 clips")


def test_a_pickled_dataset_is_opened_again_where_it_arrives(remote: str) -> None:
    content = pickle.dumps(open_dataset(remote))
    assert b"solfa-tests-secret" not in content
    assert isinstance(pickle.loads(content), Dataset)
    assert pickle.loads(content)[3].id == "clip/003"


def test_one_clip_is_a_byte_range_and_many_are_a_whole_file(bucket: str, tmp_path: Path) -> None:
    many = array_dataset.append_arrays(f"{bucket}/many.solfa", info_of(codes_spec()), SMALL * 1, MADE_BY, 9)
    assert many.commits[0].num_clips == 8
    dataset = open_dataset(f"{bucket}/many.solfa")
    before = cached(tmp_path)
    np.testing.assert_array_equal(dataset[1].array, SMALL[1].array)
    assert cached(tmp_path) == before + 1  # the meta file
    for _ in range(2):
        for _clip in dataset:
            pass
    assert cached(tmp_path) == before + 2


@pytest.mark.parametrize("cache_bytes", [0, 5_000, None])
def test_the_size_of_the_cache_changes_nothing_that_is_read(
    remote: str, tmp_path: Path, cache_bytes: int | None
) -> None:
    shutil.rmtree(tmp_path / "cache")
    for _ in range(3):
        dataset = open_dataset(remote, cache_bytes=cache_bytes)
        stored = [outcome for outcome in SMALL if outcome.array is not None]
        for clip, outcome in zip(dataset, stored, strict=True):
            np.testing.assert_array_equal(clip.array, outcome.array)
        assert dataset.cache.max_bytes >= sum(kept.size_bytes for kept in dataset.cache.kept()) or cache_bytes is None
    if cache_bytes == 0:
        assert dataset.cache.kept() == []


def test_a_bit_that_flips_in_the_cache_is_noticed_and_read_again(remote: str, tmp_path: Path) -> None:
    for _ in range(2):
        for _clip in open_dataset(remote):
            pass
    objects = [path for path in (tmp_path / "cache/objects").iterdir() if len(path.name) == 64]
    assert len(objects) > 3  # the meta files of three shards, and data
    for path in objects:
        content = bytearray(path.read_bytes())
        path.write_bytes(bytes(byte ^ 1 for byte in content))
    stored = [outcome for outcome in SMALL if outcome.array is not None]
    for clip, outcome in zip(open_dataset(remote), stored, strict=True):
        np.testing.assert_array_equal(clip.array, outcome.array)


def test_an_object_that_was_damaged_or_lost_is_an_error_and_not_a_clip(remote: str) -> None:
    store = store_at(remote)
    key = next(entry.key for entry in store.list("data") if entry.key.startswith("data/00000-"))
    content = store.read(key)
    store.replace(key, bytes(byte ^ 1 for byte in content))
    with pytest.raises(StoreError, match=r"damaged.*verify"):
        open_dataset(remote)[0]
    store.delete([key])
    with pytest.raises(StoreError, match=r"missing.*verify"):
        open_dataset(remote)[0]


def test_verify_looks_at_what_is_in_the_store_and_not_at_copies(remote: str, tmp_path: Path) -> None:
    found = verify(remote)
    assert (found.num_shards, found.num_clips, found.problems, found.leftovers) == (3, 8, [], [])
    for _ in range(2):
        for _clip in open_dataset(remote):  # now there are good copies here
            pass
    store = store_at(remote)
    damages = {
        "data": lambda content: content[:-9] + bytes(9),
        "meta": lambda content: content[:-1],
        "plan": lambda content: content[:40] + b"\0" + content[41:],
    }
    keys = {folder: next(entry.key for entry in store.list(folder)) for folder in [*damages, "commit"]}
    whole = {key: store.read(key) for key in keys.values()}
    for folder, damage in damages.items():
        store.replace(keys[folder], damage(whole[keys[folder]]))
    damaged = {problem.path for problem in verify(remote).problems}
    assert {keys["data"], keys["meta"]} <= damaged and damaged & {keys["plan"], "plan"}
    store.delete(keys.values())
    assert any("missing" in problem.message for problem in verify(remote).problems)
    for key, content in whole.items():
        store.replace(key, content)
    store.replace("data/notes.txt", b"")
    assert [problem.path for problem in verify(remote).problems] == ["data/notes.txt"]


def test_status_counts_it(remote: str, pristine: Path) -> None:
    assert read_status(remote) == read_status(pristine)


def test_where_there_is_no_dataset_one_sentence_says_what_there_is(bucket: str) -> None:
    with pytest.raises(StoreError, match="found nothing there"):
        open_dataset(f"{bucket}/x.solfa")
    store_at(bucket).create("x.solfa/notes.txt", b"mine")
    with pytest.raises(StoreError, match=r"no dataset\.json"):
        open_dataset(f"{bucket}/x.solfa")
    with pytest.raises(ConfigError, match=r"notes\.txt.*another `dest`"):
        expect_new_dataset(BucketStore(f"{bucket}/x.solfa"))
    with pytest.raises(StoreError, match="there is no s3://no-such-bucket"):
        open_dataset("s3://no-such-bucket/x.solfa")


def test_garbage_is_what_no_shard_can_need_any_more(remote: str) -> None:
    store, before = store_at(remote), bucket_tree(remote)
    store.create("data/00001-0123456789abcdef.arrow", b"of a writer that came second")
    store.create("meta/00007-0123456789abcdef.parquet", b"of a shard that somebody may be about to commit")
    store.create(".tmp/lease-00002", b"another-machine 1")
    with pytest.raises(StoreError, match=r"encoder .*shard 2 "):
        collect_garbage(remote)
    store.delete([".tmp/lease-00002"])
    store.create(".tmp/probe-1", b"")
    going = [".tmp/probe-1", "data/00001-0123456789abcdef.arrow"]
    assert leftovers(remote) == collect_garbage(remote, dry_run=True) == collect_garbage(remote) == going
    store.delete(["meta/00007-0123456789abcdef.parquet"])
    assert bucket_tree(remote) == before and collect_garbage(remote) == []


def test_a_lease_is_held_by_one_and_taken_over_when_its_process_is_gone(bucket: str) -> None:
    store = BucketStore(f"{bucket}/x.solfa")
    lease = Lease.take(store, 3)
    assert lease is not None and Lease.take(store, 3) is None and live_leases(store) == [3]
    lease.release()
    lease.release()
    assert live_leases(store) == [] and store.head(lease_key(3)) is None
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    store.create(lease_key(3), f"{platform.node()} {dead.stdout.strip()} x".encode())
    store.create(lease_key(4), b"another-machine 1")
    assert live_leases(store) == [4]
    lease = Lease.take(store, 3)
    assert lease is not None
    store.delete([lease_key(3)])
    lease.release()


def test_of_two_writers_of_a_shard_the_first_counts(bucket: str) -> None:
    root = BucketStore(f"{bucket}/x.solfa")
    create_info(root, info_of(codes_spec()))
    commits = []
    with (
        ShardWriter(root, 0, codes_spec(), {"who": "first"}) as first,
        ShardWriter(root, 0, codes_spec(), {"who": "second"}) as second,
    ):
        for writer, outcomes in ((first, SMALL[:3]), (second, MORE)):
            for outcome in outcomes:
                writer.add(outcome)
        commits = [first.commit(), second.commit()]
    assert commits[0] == commits[1] and commits[0].made_by == {"who": "first"}
    assert len(leftovers(root)) == 2


POINTS = sorted(
    {
        name
        for folder in ("store", "files/stores")
        for path in (Path(solfa.__file__).parent / folder).glob("*.py")
        for name in re.findall(r'crash_point\("([^"]+)"\)', path.read_text())
    }
)


@pytest.mark.slow
def test_killed_at_any_named_point_the_same_call_finishes_to_the_same_bytes(
    bucket: str, tmp_path: Path, object_server: dict[str, str]
) -> None:
    clean = files_of(tree(build_in_two_steps(tmp_path / "clean.solfa")))
    driver = [sys.executable, str(Path(__file__).with_name("crash_driver.py")), str(tmp_path), bucket, *POINTS]
    points = subprocess.run(driver, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert {point.split("#")[0] for point in points} == {*POINTS} and len(points) > 20
    for point in points:
        root = f"{bucket}/{point}/d.solfa"
        build_in_two_steps(root)
        assert bucket_tree(root) == clean, point
