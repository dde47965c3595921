"""The progress of a dataset: planned, committed, failed, in progress."""

from typing import NamedTuple

from solfa.files.stores.place import Place, read_place
from solfa.store.layout import committed_shards, manifests, read_commits, read_info, read_manifest
from solfa.store.lease import live_leases
from solfa.store.plan_file import list_shards
from solfa.store.retries import standing_failures
from solfa.store.schema import DatasetInfo


class Status(NamedTuple):
    """Counts over the plan and the commits."""

    info: DatasetInfo
    planned_shards: int
    planned_clips: int
    committed_shards: int
    stored_clips: int
    failed_clips: int
    """Without those that a later shard has again."""
    num_frames: int
    seconds: float
    num_bytes: int
    latest_manifest: int | None
    shards_at_work: list[int]
    pinned_shards: int
    """Shards that the latest manifest pins."""

    @property
    def is_finished(self) -> bool:
        """Whether a manifest pins everything that is planned."""
        return self.latest_manifest is not None and self.pinned_shards >= self.planned_shards


def read_status(root: str | Place) -> Status:
    """Count what a dataset has and what is still missing; reads only small files.

    >>> from solfa.store import read_status
    >>> status = read_status("music.solfa")
    >>> status.stored_clips, status.failed_clips, status.is_finished
    (7, 1, True)
    """
    root = read_place(root)
    info = read_info(root)
    planned = list_shards(root)
    commits = read_commits(root, committed_shards(root))
    numbers = manifests(root)
    tried = sum(commit.num_failed for commit in commits)
    # Nothing is tried again before there is a second part; a damaged shard then does not keep us from counting.
    has_retries = tried > 0 and planned[-1].part > 0
    failed = len(standing_failures(root, commits, info.array)) if has_retries else tried
    return Status(
        info=info,
        planned_shards=len(planned),
        planned_clips=sum(shard.num_clips for shard in planned) - (tried - failed),
        committed_shards=len(commits),
        stored_clips=sum(commit.num_clips for commit in commits),
        failed_clips=failed,
        num_frames=sum(commit.num_frames for commit in commits),
        seconds=sum(commit.num_samples for commit in commits) / info.array.sample_rate,
        num_bytes=sum(commit.data.size_bytes + commit.meta.size_bytes for commit in commits),
        latest_manifest=numbers[-1] if numbers else None,
        shards_at_work=live_leases(root),
        pinned_shards=len(read_manifest(root, numbers[-1]).commits) if numbers else 0,
    )
