"""Remove what killed runs left behind: temporary files, stale leases, and files that no commit refers to."""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from solfa.errors import StoreError
from solfa.files.stores.bucket_store import BucketStore
from solfa.files.stores.place import Place, read_place, store_at
from solfa.files.whole_files import TEMPORARY
from solfa.store.layout import committed_shards, expect_real_folders, read_commits, read_info
from solfa.store.lease import PLANNING, STALE_SECONDS, is_leased, live_leases
from solfa.store.restoration import own_manifests


def leftovers(root: str | Place) -> list[str]:
    """List the files of a dataset that nothing refers to, by their keys.

    >>> from pathlib import Path
    >>> from solfa.store import leftovers
    >>> Path("music.solfa/.tmp").mkdir(exist_ok=True)
    >>> _ = Path("music.solfa/.tmp/half.bin").write_bytes(b"half a shard")
    >>> leftovers("music.solfa")
    ['.tmp/half.bin']
    """
    place = read_place(root)
    return [*temporary_files(place), *_unnamed(place, _content_files(place))]


def temporary_files(root: Place) -> list[str]:
    """List the keys of files that are not published yet, leases among them."""
    if isinstance(root, BucketStore):
        return [entry.key for entry in root.list(TEMPORARY)]
    walked = os.walk(root / TEMPORARY)  # which lists links to folders, but does not enter them
    paths = sorted(Path(folder, name) for folder, _, names in walked for name in names)
    return [path.relative_to(root).as_posix() for path in paths]


def _content_files(root: Place) -> list[str]:
    keys = [f"{folder}/{name}" for folder in ("data", "meta") for name in store_at(root).names(folder)]
    return [key for key in keys if key.endswith(".arrow" if key.startswith("data") else ".parquet")]


def _unnamed(root: Place, keys: Iterable[str]) -> list[str]:
    """Find the files that no commit names; in an object store, only those of shards that are committed.

    There, a writer that only seemed dead cannot be told that its files are gone. Of a shard that exists it cannot
    commit them any more; those of other shards wait until somebody writes the shard, who will need just these files.
    """
    shards = committed_shards(root)
    commits = read_commits(root, shards)
    # A commit that got lost can be restored from a manifest, but its files cannot.
    commits += [commit for manifest in own_manifests(root).values() for commit in manifest.commits]
    named = {f"data/{commit.data.name}" for commit in commits} | {f"meta/{commit.meta.name}" for commit in commits}
    unnamed = [key for key in keys if key not in named]
    return unnamed if isinstance(root, Path) else [key for key in unnamed if _shard_of(key) in set(shards)]


def _shard_of(key: str) -> int | None:
    found = re.match(r"(?:data|meta)/([0-9]{5,})-", key)
    return int(found[1]) if found else None


def collect_garbage(root: str | Place, *, dry_run: bool = False) -> list[str]:
    """Remove the leftovers and list their keys; refuse while an encoder is running, since they may be its files.

    >>> from solfa.store import collect_garbage
    >>> collect_garbage("music.solfa")
    []
    """
    root = read_place(root)
    read_info(root)
    expect_real_folders(root)
    found = temporary_files(root)
    expect_nobody_at_work(root)
    if dry_run:
        return leftovers(root)
    # The order matters. Emptying .tmp removes the unfinished commit of a process that only seemed dead, so it can no
    # longer commit any of the files below. A process that starts now holds its lease until it has committed: if there
    # is no lease after the files were listed, the commits read last refer to every file that counts.
    temporary = remove_temporary(root, found)
    files = _content_files(root)
    expect_nobody_at_work(root)
    unnamed = _unnamed(root, files)
    store_at(root).delete(unnamed)
    return temporary + unnamed


def remove_temporary(root: Place, keys: list[str]) -> list[str]:
    """Remove files that are not published and the folders that are then empty; return the keys.

    They were listed before anybody looked whether somebody is at work: who starts since then keeps what it makes.
    """
    store_at(root).delete(keys)
    if isinstance(root, Path):
        for folder in [Path(path) for path, _, _ in os.walk(root / TEMPORARY, topdown=False)]:
            with suppress(OSError):  # something is in it
                folder.rmdir()
    return keys


def expect_nobody_at_work(root: Place) -> None:
    """Refuse a dataset that is being encoded or repaired."""
    alive = live_leases(root)
    if alive or is_leased(root, PLANNING):
        what = f"working on shard {alive[0]}" if alive else "listing recordings"
        raise StoreError(
            f"{root}: an encoder is {what} (or was, less than {STALE_SECONDS:.0f} s ago); "
            "wait until it is done and try again"
        )
