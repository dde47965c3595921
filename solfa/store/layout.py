"""Where a dataset's files are, and which of them exist.

    music.solfa/
      dataset.json                 settings and array schema, written first
      plan/00000.parquet           the frozen list of clips; later parts append to it
      data/00017-<hash>.arrow      arrays
      meta/00017-<hash>.parquet    one row per clip
      commit/00017.json            the shard exists once this exists
      manifest/000001.json         a finished state, which readers pin
      landmarks/00017-v1.arrow     what the clips sound like, to find copies; a dataset may have none
      .tmp/                        files being written, leases of running encoders, and what planning has found so far

Files are only ever created, never changed, so each step only adds to what the steps before it left.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

from solfa.config import Config, parse_config
from solfa.errors import ConfigError, StoreError
from solfa.files.free_folder import expect_free
from solfa.files.json_objects import parse_object
from solfa.files.stores.local_store import LocalStore
from solfa.files.stores.place import Place, store_at
from solfa.files.stores.protocol import Store
from solfa.files.whole_files import TEMPORARY, expect_real_folder
from solfa.store.requests import each
from solfa.store.schema import FORMAT_VERSION, Commit, DatasetInfo, FileRecord, Manifest, record_bytes

R = TypeVar("R", bound=Config)

INFO_KEY = "dataset.json"
"""The key of the settings file."""
FOLDERS = (TEMPORARY, "data", "meta", "commit", "plan", "manifest", "landmarks")


def plan_key(part: int) -> str:
    """Return the key of one part of the plan."""
    return f"plan/{part:05d}.parquet"


def commit_key(shard: int) -> str:
    """Return the key of a shard's commit."""
    return f"commit/{shard:05d}.json"


def manifest_key(number: int) -> str:
    """Return the key of a manifest."""
    return f"manifest/{number:06d}.json"


def content_name(shard: int, sha256: str, suffix: str) -> str:
    """Name a data or meta file after its content."""
    return f"{shard:05d}-{sha256[:16]}{suffix}"


def is_dataset(root: str | Place) -> bool:
    """Say whether `root` holds a dataset, finished or not.

    >>> from solfa.store import is_dataset
    >>> is_dataset("music.solfa"), is_dataset("audio")
    (True, False)
    """
    return store_at(root).head(INFO_KEY) is not None


def expect_new_dataset(root: Place) -> None:
    """Refuse to make a dataset where there is something else, apart from leftovers of a killed run."""
    advice = "choose another `dest`"

    def is_ours(name: str) -> bool:
        # Another process may have begun the dataset since the caller looked: dataset.json is the first of its files.
        return name == TEMPORARY or is_dataset(root)

    if isinstance(root, Path):
        expect_free(root, advice, expected="a new or empty folder, or a Solfa dataset", is_ours=is_ours)
        return
    foreign = [name for name in root.names("") if not is_ours(name)]
    if foreign:
        raise ConfigError(f"{root}: expected nothing or a Solfa dataset, found {foreign[0]!r} in it; {advice}")


def expect_real_folders(root: Place) -> None:
    """Refuse a dataset in which a folder is a link to another place; object stores have no links."""
    if isinstance(root, Path):
        for name in FOLDERS:
            expect_real_folder(root / name)


def numbered(root: Place, folder: str, suffix: str, digits: int) -> list[int]:
    """List the numbers of the files `<number><suffix>` in a folder, in order; other names are ignored."""
    pattern = re.compile(rf"([0-9]{{{digits}}}|[1-9][0-9]{{{digits},}}){re.escape(suffix)}")
    return sorted(int(match[1]) for name in store_at(root).names(folder) if (match := pattern.fullmatch(name)))


def plan_parts(root: Place) -> list[int]:
    """List the parts of the plan that exist."""
    return numbered(root, "plan", ".parquet", 5)


def committed_shards(root: Place) -> list[int]:
    """List the shards that exist."""
    return numbered(root, "commit", ".json", 5)


def is_committed(root: Place, shard: int) -> bool:
    """Say whether a shard exists."""
    return store_at(root).head(commit_key(shard)) is not None


def manifests(root: Place) -> list[int]:
    """List the manifests that exist."""
    return numbered(root, "manifest", ".json", 6)


def _read(model: type[R], store: Store, key: str, what: str) -> R:
    try:
        content = _content(store, key, what)
    except FileNotFoundError:
        raise StoreError(f"{store}/{key}: {what} is missing") from None
    return _parse(model, content, f"{store}/{key}", what)


def _content(store: Store, key: str, what: str) -> bytes:
    try:
        return store.read(key)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(f"{store}/{key}: {what} cannot be read ({error.strerror})") from None


def _parse(model: type[R], content: bytes, where: str, what: str) -> R:
    try:
        values = parse_object(content)
    except ValueError as error:
        raise StoreError(f"{where}: {what}: not a JSON object ({error}); the file is damaged") from None
    try:
        return parse_config(model, values, where)
    except ConfigError as error:
        raise StoreError(f"{what} is damaged, or from another version: {error}") from None


def read_info(root: Place) -> DatasetInfo:
    """Read dataset.json."""
    store = store_at(root)
    # A folder is looked at first, since it may have anything in the place of the file; a bucket is asked only once.
    if isinstance(root, Path) and not is_dataset(root):
        raise _no_dataset(store)
    try:
        content = _content(store, INFO_KEY, INFO_KEY)
    except FileNotFoundError:
        raise _no_dataset(store) from None
    version = _peek_version(content)
    if version not in (None, FORMAT_VERSION):
        raise StoreError(
            f"{store}/{INFO_KEY}: format version {version}, but this Solfa reads version {FORMAT_VERSION}; "
            "update Solfa to read it"
        )
    return _parse(DatasetInfo, content, f"{store}/{INFO_KEY}", INFO_KEY)


def _no_dataset(store: Store) -> StoreError:
    return StoreError(
        f"{store}: expected a Solfa dataset, found {_what_is_there(store)}; make one with `solfa encode SOURCE {store}`"
    )


def _what_is_there(store: Store) -> str:
    if isinstance(store, LocalStore):
        return f"a folder without {INFO_KEY}" if store.path.is_dir() else "no such folder"
    return f"objects, but no {INFO_KEY}" if store.names("") else "nothing there"


def _peek_version(content: bytes) -> object:
    try:
        return parse_object(content).get("format_version")
    except ValueError:
        return None  # parsing all of it says what is wrong


def read_commit(root: Place, shard: int) -> Commit:
    """Read the commit of one shard."""
    store = store_at(root)
    commit = _read(Commit, store, commit_key(shard), "the commit")
    if commit.shard != shard:
        raise StoreError(
            f"{store}/{commit_key(shard)}: this is the commit of shard {commit.shard}; the file was renamed"
        )
    return commit


def read_commits(root: Place, shards: Iterable[int]) -> list[Commit]:
    """Read the commits of some shards; from an object store, many at once."""
    return each(root, partial(read_commit, root), shards)


def read_manifest(root: Place, number: int) -> Manifest:
    """Read one manifest."""
    return _read(Manifest, store_at(root), manifest_key(number), "the manifest")


def create_info(root: Place, info: DatasetInfo) -> DatasetInfo:
    """Write dataset.json unless it exists; return the one that is there."""
    store_at(root).create(INFO_KEY, record_bytes(info))
    return read_info(root)


def create_numbered_manifest(root: Place, existing: list[int], manifest_of: Callable[[int], Manifest]) -> Manifest:
    """Write the manifest after the `existing` ones, unless the latest of them already pins the same content."""
    while True:
        number = (existing[-1] if existing else 0) + 1
        manifest = manifest_of(number)
        if existing:
            latest = read_manifest(root, existing[-1])
            # A faster process may have pinned clips that were appended since `manifest` was made: never go back.
            if latest.digest == manifest.digest or len(latest.plans) > len(manifest.plans):
                return latest
        if store_at(root).create(manifest_key(number), record_bytes(manifest)):
            return manifest
        existing = manifests(root)


def replace_record(root: Place, key: str, record: Config) -> None:
    """Write a commit or a manifest over a damaged one."""
    store_at(root).replace(key, record_bytes(record))


def file_record(path: Path, sha256: str, name: str | None = None) -> FileRecord:
    """Make the record of a file that was just written."""
    return FileRecord(name=name or path.name, size_bytes=path.stat().st_size, sha256=sha256)
