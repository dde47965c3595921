"""Garbage collection removes leftovers and nothing else, and never what a living writer needs."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from store_maker import MADE_BY, SMALL, build, codes_spec, info_of, tree

from solfa.errors import StoreError
from solfa.store.gc import collect_garbage, leftovers
from solfa.store.layout import create_info
from solfa.store.lease import STALE_SECONDS, Lease, lease_key
from solfa.store.shard_writer import ShardWriter
from solfa.store.verification import verify

ORPHANS = ["data/00001-0123456789abcdef.arrow", "meta/00009-0123456789abcdef.parquet", ".tmp/data-00001.7.ab"]


def litter(root: Path) -> None:
    (root / ".tmp").mkdir(exist_ok=True)
    for name in ORPHANS:
        (root / name).write_text("left behind")


def test_leftovers_go_and_everything_else_stays(small: Path) -> None:
    collect_garbage(small)
    before = tree(small, temporary=True)
    litter(small)
    stale = small / lease_key(1)
    stale.write_text("")
    os.utime(stale, (0, 0))
    names = sorted([*ORPHANS, ".tmp/lease-00001"])
    assert sorted(collect_garbage(small, dry_run=True)) == names
    assert len(leftovers(small)) == len(names)
    assert sorted(collect_garbage(small)) == names
    assert tree(small, temporary=True) == before
    assert collect_garbage(small) == []


def test_a_folder_that_a_killed_repair_left_goes_and_what_it_links_to_stays(small: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/thesis.txt").write_text("mine")
    bench = small / ".tmp/repair.1.ab"
    (bench / "plan").mkdir(parents=True)
    (bench / "plan/00000.parquet").write_text("")
    (bench / "data").symlink_to(tmp_path / "theirs")
    assert collect_garbage(small) == [".tmp/repair.1.ab/plan/00000.parquet"]
    assert (tmp_path / "theirs/thesis.txt").exists()
    (bench / "data").unlink()
    collect_garbage(small)
    assert not (small / ".tmp").exists()


def test_files_of_a_commit_that_got_lost_stay_because_a_manifest_names_them(small: Path) -> None:
    (small / "commit/00001.json").unlink()
    before = tree(small)
    assert collect_garbage(small) == [] and tree(small) == before


def test_it_refuses_while_an_encoder_is_at_work_and_touches_nothing(small: Path) -> None:
    litter(small)
    lease = Lease.take(small, 7)
    assert lease is not None
    with lease:
        before = tree(small, temporary=True)
        with pytest.raises(StoreError, match=r"encoder .*shard 7 .*wait"):
            collect_garbage(small)
        assert tree(small, temporary=True) == before
    assert len(collect_garbage(small)) == len(ORPHANS)


def test_it_refuses_a_folder_that_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / ".tmp").mkdir()
    (tmp_path / ".tmp" / "precious").write_text("")
    with pytest.raises(StoreError, match="expected a Solfa dataset"):
        collect_garbage(tmp_path)
    assert (tmp_path / ".tmp" / "precious").exists()


def test_a_damaged_commit_keeps_the_files_it_may_name(small: Path) -> None:
    (small / "commit" / "00001.json").write_text("{")
    before = tree(small)
    with pytest.raises(StoreError, match=r"commit/00001\.json"):
        collect_garbage(small)
    assert tree(small) == before


@pytest.mark.parametrize("moment", ["data", "meta", "commit"])
def test_a_writer_that_slept_through_a_collection_cannot_commit_what_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The writer is stopped right before it names a file; its lease goes stale and gc runs; then it goes on."""
    root = tmp_path / "d"
    create_info(root, info_of(codes_spec()))
    link = os.link

    def sleep_first(source: Any, target: Any) -> None:
        if Path(target).parent.name == moment:
            collect_garbage(root)
        link(source, target)

    monkeypatch.setattr(os, "link", sleep_first)
    with ShardWriter(root, 0, codes_spec(), MADE_BY) as writer:
        for outcome in SMALL[:3]:
            writer.add(outcome)
        with pytest.raises(StoreError, match=r"shard 0 .*`solfa gc`.*again"):
            writer.commit()
    assert not (root / "commit" / "00000.json").exists()
    monkeypatch.undo()
    build(root, SMALL)
    assert verify(root).problems == []


def test_leases_in_the_past_are_stale(small: Path) -> None:
    (small / ".tmp").mkdir(exist_ok=True)
    path = small / lease_key(3)
    path.write_text("another-machine 1")
    for age, refused in [(STALE_SECONDS - 20, True), (STALE_SECONDS + 20, False)]:
        os.utime(path, (time.time() - age,) * 2)
        if refused:
            with pytest.raises(StoreError, match=r"encoder .*shard 3 "):
                collect_garbage(small)
        else:
            assert collect_garbage(small) == [lease_key(3)]
