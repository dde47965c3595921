"""Remove what killed runs left behind: temporary files, stale leases, and files that no commit names."""

from pathlib import Path

from solfa.errors import StoreError
from solfa.files.publish import TEMPORARY
from solfa.store.layout import committed_shards, read_commit, read_info
from solfa.store.lease import STALE_SECONDS, live_leases


def leftovers(root: Path) -> list[Path]:
    """List the files of a dataset that nothing refers to."""
    commits = [read_commit(root, shard) for shard in committed_shards(root)]
    named = {commit.data.name for commit in commits} | {commit.meta.name for commit in commits}
    found = [path for path in sorted((root / TEMPORARY).glob("*")) if path.is_file()]
    for folder, suffix in (("data", ".arrow"), ("meta", ".parquet")):
        found += [path for path in sorted((root / folder).glob(f"*{suffix}")) if path.name not in named]
    return found


def collect_garbage(root: Path, *, dry_run: bool = False) -> list[Path]:
    """Remove the leftovers and list them; refuse while an encoder is at work, whose files they may be."""
    read_info(root)
    alive = live_leases(root)
    if alive:
        raise StoreError(
            f"{root}: an encoder is at work on shard {alive[0]} (or was, less than {STALE_SECONDS:.0f} s ago); "
            "wait until it ends and try again"
        )
    found = leftovers(root)
    if not dry_run:
        for path in found:
            path.unlink(missing_ok=True)
        temporary = root / TEMPORARY
        if temporary.is_dir() and not any(temporary.iterdir()):
            temporary.rmdir()
    return found
