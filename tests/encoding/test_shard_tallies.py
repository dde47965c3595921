"""What is counted is what was encoded, however often it was reported."""

from itertools import count

from solfa.encoding.progress import Progress
from solfa.encoding.shard_tallies import ShardTallies
from solfa.store.schema import Commit, FileRecord


def commit(shard: int, num_clips: int, num_failed: int, num_samples: int) -> Commit:
    data = FileRecord(name=f"{shard:05d}-{0:016d}.arrow", size_bytes=0, sha256="0" * 64)
    meta = FileRecord(name=f"{shard:05d}-{0:016d}.parquet", size_bytes=0, sha256="0" * 64)
    return Commit(
        shard=shard,
        data=data,
        meta=meta,
        num_clips=num_clips,
        num_failed=num_failed,
        num_frames=num_samples,
        num_samples=num_samples,
        made_by={},
    )


def test_a_shard_that_another_encoder_takes_over_starts_from_nothing():
    tallies = ShardTallies(map(float, count()).__next__)
    tallies.add(0, Progress(4, (), 40.0, shard=7))
    tallies.add(1, Progress(5, (), 50.0, shard=8))
    tallies.add(0, Progress(4, ("a.wav",), 30.0, shard=7))
    assert (tallies.totals.clips, tallies.totals.seconds) == (13, 120.0)
    tallies.add(2, Progress(shard=7))  # the first was lost
    assert (tallies.totals.clips, tallies.totals.seconds) == (5, 50.0)
    tallies.add(2, Progress(4, ("a.wav",), 40.0, shard=7))
    assert (tallies.totals.clips, tallies.totals.seconds) == (9, 90.0)
    assert tallies.totals.failed == {"a.wav"}


def test_in_the_end_commits_count_and_not_reports():
    tallies = ShardTallies(map(float, count()).__next__)
    tallies.add(0, Progress())
    tallies.add(0, Progress(shard=0))  # committed, and lost before it could say so
    tallies.add(1, Progress(3, (), 30.0, shard=1))
    of_another_run = commit(2, 5, 0, 500)
    totals = tallies.settle([commit(0, 9, 1, 900), commit(1, 3, 0, 300), of_another_run], sample_rate=10)
    assert (totals.clips, totals.seconds) == (13, 120.0)
