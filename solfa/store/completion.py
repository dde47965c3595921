"""Close a dataset: once every planned shard is committed, pin them all in a manifest."""

from solfa.files.crash_points import crash_point
from solfa.files.stores.place import Place
from solfa.store.layout import committed_shards, create_numbered_manifest, plan_parts, read_commits, read_info
from solfa.store.plan_file import list_shards, plan_record
from solfa.store.schema import Manifest


def finish(root: Place) -> Manifest | None:
    """Pin everything that is planned in a manifest, or return None while shards are missing; safe to repeat."""
    if not {shard.shard for shard in list_shards(root)} <= set(committed_shards(root)):
        return None
    everything = make_manifest(root, 1, len(plan_parts(root)))
    crash_point("manifest:before")
    manifest = create_numbered_manifest(root, lambda number: everything.model_copy(update={"number": number}))
    crash_point("manifest:after")
    return manifest


def make_manifest(root: Place, number: int, num_parts: int) -> Manifest:
    """Describe the first parts of the plan and the commits of all their shards."""
    shards = [shard.shard for shard in list_shards(root) if shard.part < num_parts]
    return Manifest(
        number=number,
        fingerprint=read_info(root).fingerprint,
        plans=tuple(plan_record(root, part) for part in range(num_parts)),
        commits=tuple(read_commits(root, shards)),
    )
