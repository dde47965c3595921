"""Close a dataset: once every planned shard is committed, pin them all in a manifest."""

from solfa.files.crash_points import crash_point
from solfa.files.stores.place import Place
from solfa.store.layout import committed_shards, create_numbered_manifest, manifests, read_commits, read_info
from solfa.store.plan_file import read_plan
from solfa.store.requests import Requests
from solfa.store.schema import Commit, Manifest


def finish(root: Place) -> Manifest | None:
    """Pin everything that is planned in a manifest, or return None while shards are missing; safe to repeat."""
    with Requests(root) as requests:
        existing = requests.begin(manifests, root)
        fingerprint = requests.begin(_fingerprint, root)
        commits = requests.begin(_commits, root)
        planned, plans = read_plan(root)
        known = {commit.shard: commit for commit in commits()}
        if any(shard.shard not in known for shard in planned):
            return None
        pinned = tuple(known[shard.shard] for shard in planned)
        everything = Manifest(number=1, fingerprint=fingerprint(), plans=tuple(plans), commits=pinned)
        numbers = existing()
    crash_point("manifest:before")
    manifest = create_numbered_manifest(root, numbers, lambda number: everything.model_copy(update={"number": number}))
    crash_point("manifest:after")
    return manifest


def _fingerprint(root: Place) -> str:
    return read_info(root).fingerprint


def _commits(root: Place) -> list[Commit]:
    return read_commits(root, committed_shards(root))


def make_manifest(root: Place, number: int, num_parts: int) -> Manifest:
    """Describe the first parts of the plan and the commits of all their shards."""
    planned, plans = read_plan(root)
    commits = read_commits(root, [shard.shard for shard in planned if shard.part < num_parts])
    plans = plans[:num_parts]
    return Manifest(number=number, fingerprint=_fingerprint(root), plans=tuple(plans), commits=tuple(commits))
