"""Bring a whole file of a dataset to where it can be read: it is there already, or it comes through the cache."""

import hashlib
import io
from pathlib import Path

from solfa.errors import StoreError
from solfa.files.digest import file_sha256, value_sha256
from solfa.files.stores.local_store import LocalStore, expect_no_pipe
from solfa.files.stores.place import Place, store_at
from solfa.store.file_cache import FileCache, Wanted
from solfa.store.schema import FileRecord


def wanted_file(root: Place, folder: str, record: FileRecord) -> Wanted:
    """Name a committed file as the cache knows it: by its content."""
    return Wanted(store_at(root), f"{folder}/{record.name}", record.sha256, record.size_bytes, record.sha256)


def wanted_version(root: Place, key: str) -> Wanted:
    """Name a file of which only the version is known; FileNotFoundError if it does not exist."""
    store = store_at(root)
    entry = store.head(key)
    if entry is None:
        raise FileNotFoundError(f"{root}/{key}")
    return Wanted(store, key, value_sha256([str(root), *entry[:3]]), entry.size_bytes)


def readable(root: Place, wanted: Wanted | str, cache: FileCache | None = None) -> Path | io.BytesIO:
    """Return a path, or the content in memory if the cache has no room for it.

    A key instead of a wanted file means whatever is there now.
    """
    store = store_at(root)
    if isinstance(store, LocalStore):
        here = store.file(wanted if isinstance(wanted, str) else wanted.key)
        expect_no_pipe(here)
        return here
    found = wanted_version(root, wanted) if isinstance(wanted, str) else wanted
    cache = cache or FileCache.choose()
    path = cache.fetch(found)
    # A file that was fetched earlier, by whomever, is looked at again: it is small, and disks forget.
    if path is not None and found.sha256 is not None and file_sha256(path) != found.sha256:
        cache.drop(found)
        path = cache.fetch(found)
    return path or io.BytesIO(_whole(found))


def _whole(wanted: Wanted) -> bytes:
    content = wanted.store.read(wanted.key)
    if wanted.sha256 not in (None, hashlib.sha256(content).hexdigest()):
        raise StoreError(f"{wanted.store}/{wanted.key}: its content is not what was committed; run `solfa verify`")
    return content
