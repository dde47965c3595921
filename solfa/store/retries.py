"""Failed clips that were planned again: committed rows never change, so the row of the later shard counts.

shard 00003    story.ogg             failed
shard 00064    story.ogg@00000.000   ok          the recording was repaired, and is now cut into segments
               story.ogg@00030.000   ok
"""

from collections.abc import Iterable, Iterator, Sequence

from solfa.files.stores.place import Place
from solfa.store.layout import committed_shards, plan_parts, read_commits, read_info
from solfa.store.plan_file import iterate_plan_columns
from solfa.store.schema import ArraySpec, Commit
from solfa.store.shard_reader import FailedClip, ShardReader, read_shards


def standing_failures(root: Place, commits: Sequence[Commit], spec: ArraySpec) -> list[FailedClip]:
    """List the failed clips that no later shard has again."""
    partial = [commit for commit in commits if commit.num_failed]
    found = read_shards(root, partial, spec, ShardReader.failures)
    failed = {commit.shard: clips for commit, clips in zip(partial, found, strict=True)}
    if not failed or len(plan_parts(root)) < 2:
        return [clip for clips in failed.values() for clip in clips]
    later = [commit for commit in commits if commit.shard > min(failed)]
    last = _last_shards({clip.id for clips in failed.values() for clip in clips}, _rows(root, later, spec))
    return [clip for shard, clips in failed.items() for clip in clips if last.get(clip.id, shard) <= shard]


def retryable(root: Place) -> dict[str, set[str]]:
    """List the failed clips that are not planned again yet, as ids by the key of their recording."""
    commits = read_commits(root, committed_shards(root))
    failed = {clip.id for clip in standing_failures(root, commits, read_info(root).array)}
    if not failed:
        return {}
    done = {commit.shard for commit in commits}
    found: dict[str, set[str]] = {}
    for shard, columns in enumerate(iterate_plan_columns(root, ["id", "key"])):
        for clip_id, key in zip(columns["id"], columns["key"], strict=True):
            if shard in done and clip_id in failed:
                found.setdefault(key, set()).add(clip_id)
            elif shard not in done:
                found.pop(key, None)
    return found


def _rows(root: Place, commits: Iterable[Commit], spec: ArraySpec) -> Iterator[tuple[int, str]]:
    for commit in commits:
        reader = ShardReader(root, commit, spec)
        failed = [clip.id for clip in reader.failures()] if commit.num_failed else []
        yield from ((commit.shard, clip_id) for clip_id in (*reader.ids, *failed))


def _last_shards(wanted: set[str], rows: Iterable[tuple[int, str]]) -> dict[str, int]:
    """Find the last shard that has each clip, or a segment of what failed as a whole."""
    last: dict[str, int] = {}
    for shard, clip_id in rows:
        for name in (clip_id, clip_id.rpartition("@")[0]):
            if name in wanted:
                last[name] = max(shard, last.get(name, shard))
    return last
