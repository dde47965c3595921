"""Remove what killed runs left behind: temporary files, stale leases, and files that no commit refers to."""

import os
from pathlib import Path

from solfa.errors import StoreError
from solfa.files.whole_files import TEMPORARY, remove_files
from solfa.store.layout import committed_shards, expect_real_folders, read_commit, read_info
from solfa.store.lease import PLANNING, STALE_SECONDS, is_leased, live_leases
from solfa.store.restoration import own_manifests


def leftovers(root: str | Path) -> list[Path]:
    """List the files of a dataset that nothing refers to."""
    root = Path(root)
    return [*_temporary_files(root), *_unnamed(root, _content_files(root))]


def _temporary_files(root: Path) -> list[Path]:
    walked = os.walk(root / TEMPORARY)  # which lists links to folders, but does not enter them
    return sorted(Path(folder, name) for folder, _, names in walked for name in names)


def _content_files(root: Path) -> list[Path]:
    return [*sorted((root / "data").glob("*.arrow")), *sorted((root / "meta").glob("*.parquet"))]


def _unnamed(root: Path, files: list[Path]) -> list[Path]:
    commits = [read_commit(root, shard) for shard in committed_shards(root)]
    # A commit that got lost can be restored from a manifest, but its files cannot.
    commits += [commit for manifest in own_manifests(root).values() for commit in manifest.commits]
    named = {Path("data", commit.data.name) for commit in commits}
    named |= {Path("meta", commit.meta.name) for commit in commits}
    return [path for path in files if path.relative_to(root) not in named]


def collect_garbage(root: str | Path, *, dry_run: bool = False) -> list[Path]:
    """Remove the leftovers and list them; refuse while an encoder is running, since they may be its files.

    >>> from solfa.store import collect_garbage
    >>> collect_garbage("music.solfa")
    []
    """
    root = Path(root)
    read_info(root)
    expect_real_folders(root)
    expect_nobody_at_work(root)
    if dry_run:
        return leftovers(root)
    # The order matters. Emptying .tmp removes the unfinished commit of a process that only seemed dead, so it can no
    # longer commit any of the files below. A process that starts now holds its lease until it has committed: if there
    # is no lease after the files were listed, the commits read last refer to every file that counts.
    temporary = _remove(_temporary_files(root))
    for folder in [Path(path) for path, _, _ in os.walk(root / TEMPORARY, topdown=False)]:
        if not any(folder.iterdir()):
            folder.rmdir()
    files = _content_files(root)
    expect_nobody_at_work(root)
    return temporary + _remove(_unnamed(root, files))


def _remove(paths: list[Path]) -> list[Path]:
    for folder in sorted({path.parent for path in paths}):
        remove_files(folder, [path.name for path in paths if path.parent == folder])
    return paths


def expect_nobody_at_work(root: Path) -> None:
    """Refuse a dataset that is being encoded or repaired."""
    alive = live_leases(root)
    if alive or is_leased(root, PLANNING):
        what = f"working on shard {alive[0]}" if alive else "listing recordings"
        raise StoreError(
            f"{root}: an encoder is {what} (or was, less than {STALE_SECONDS:.0f} s ago); "
            "wait until it is done and try again"
        )
