"""Status counts the plan, the commits and who is at work, and says finished only when a manifest pins it all."""

from pathlib import Path

from store_maker import MORE, build

from solfa.store.lease import Lease
from solfa.store.status import read_status


def test_a_finished_dataset_is_counted(small: Path) -> None:
    status = read_status(small)
    assert (status.planned_shards, status.planned_clips, status.committed_shards) == (3, 9, 3)
    assert (status.stored_clips, status.failed_clips, status.num_frames) == (8, 1, 34)
    assert status.seconds == 34 * 640 / 32_000
    assert (status.latest_manifest, status.shards_at_work, status.is_finished) == (1, [], True)


def test_a_missing_commit_or_manifest_is_unfinished(small: Path) -> None:
    build(small, MORE)
    assert read_status(small).is_finished
    (small / "manifest" / "000002.json").unlink()
    status = read_status(small)
    assert (status.latest_manifest, status.committed_shards, status.pinned_shards) == (1, 4, 3)
    assert not status.is_finished
    (small / "commit" / "00003.json").unlink()
    assert not read_status(small).is_finished


def test_shards_at_work_are_listed(small: Path) -> None:
    lease = Lease.take(small, 1)
    assert lease is not None
    with lease:
        assert read_status(small).shards_at_work == [1]
