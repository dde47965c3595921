"""Close a dataset: once every planned shard is committed, pin them all in a manifest."""

from pathlib import Path

from solfa.files.crash_points import crash_point
from solfa.store.layout import committed_shards, create_numbered_manifest, plan_parts, read_commit, read_info
from solfa.store.plan_file import list_shards, plan_record
from solfa.store.schema import Manifest


def finish(root: Path) -> Manifest | None:
    """Pin everything that is planned in a manifest, or return None while shards are missing; safe to repeat."""
    planned = [shard.shard for shard in list_shards(root)]
    if not set(planned) <= set(committed_shards(root)):
        return None
    plans = tuple(plan_record(root, part) for part in plan_parts(root))
    commits = tuple(read_commit(root, shard) for shard in planned)
    fingerprint = read_info(root).fingerprint
    crash_point("manifest:before")
    manifest = create_numbered_manifest(
        root, lambda number: Manifest(number=number, fingerprint=fingerprint, plans=plans, commits=commits)
    )
    crash_point("manifest:after")
    return manifest
