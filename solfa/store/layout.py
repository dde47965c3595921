"""Where a dataset's files are, and which of them exist.

    music.solfa/
      dataset.json                 settings and array schema, written first
      plan/00000.parquet           the frozen list of clips; later parts append to it
      data/00017-<hash>.arrow      arrays
      meta/00017-<hash>.parquet    one row per clip
      commit/00017.json            the shard exists once this exists
      manifest/000001.json         a finished state, which readers pin
      .tmp/                        files being written, leases of running encoders, and what planning has found so far

Files are only ever created, never changed, so each step only adds to what the steps before it left.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from solfa.config import Config, parse_config
from solfa.errors import ConfigError, StoreError
from solfa.files.free_folder import expect_free
from solfa.files.json_objects import read_object
from solfa.files.whole_files import TEMPORARY, create_once, expect_real_folder, put_in_place, temporary_path
from solfa.store.schema import FORMAT_VERSION, Commit, DatasetInfo, FileRecord, Manifest, record_bytes

R = TypeVar("R", bound=Config)


def info_path(root: Path) -> Path:
    """Return the path of the settings file."""
    return root / "dataset.json"


def plan_path(root: Path, part: int) -> Path:
    """Return the path of one part of the plan."""
    return root / "plan" / f"{part:05d}.parquet"


def commit_path(root: Path, shard: int) -> Path:
    """Return the path of a shard's commit."""
    return root / "commit" / f"{shard:05d}.json"


def manifest_path(root: Path, number: int) -> Path:
    """Return the path of a manifest."""
    return root / "manifest" / f"{number:06d}.json"


def content_name(shard: int, sha256: str, suffix: str) -> str:
    """Name a data or meta file after its content."""
    return f"{shard:05d}-{sha256[:16]}{suffix}"


def is_dataset(root: str | Path) -> bool:
    """Say whether `root` holds a dataset, finished or not."""
    return info_path(Path(root)).is_file()


def expect_new_dataset(root: Path) -> None:
    """Refuse to make a dataset where there is something else, apart from leftovers of a killed run."""
    expected = "a new or empty folder, or a Solfa dataset"

    def is_ours(name: str) -> bool:
        # Another process may have begun the dataset since the caller looked: dataset.json is the first of its files.
        return name == TEMPORARY or is_dataset(root)

    expect_free(root, "choose another `dest`", expected=expected, is_ours=is_ours)


def expect_real_folders(root: Path) -> None:
    """Refuse a dataset in which a folder is a link to another place."""
    for name in (TEMPORARY, "data", "meta", "commit", "plan", "manifest"):
        expect_real_folder(root / name)


def numbered(folder: Path, suffix: str, digits: int) -> list[int]:
    """List the numbers of the files `<number><suffix>` in a folder, in order; other names are ignored."""
    if not folder.is_dir():
        return []
    pattern = re.compile(rf"([0-9]{{{digits}}}|[1-9][0-9]{{{digits},}}){re.escape(suffix)}")
    return sorted(int(match[1]) for name in folder.iterdir() if (match := pattern.fullmatch(name.name)))


def plan_parts(root: Path) -> list[int]:
    """List the parts of the plan that exist."""
    return numbered(root / "plan", ".parquet", 5)


def committed_shards(root: Path) -> list[int]:
    """List the shards that exist."""
    return numbered(root / "commit", ".json", 5)


def manifests(root: Path) -> list[int]:
    """List the manifests that exist."""
    return numbered(root / "manifest", ".json", 6)


def expect_no_pipe(path: Path) -> None:
    """Refuse what is neither a file nor a folder: reading a pipe waits forever."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise StoreError(f"{path}: expected a file, found a pipe or a device; another file took its place")


def _read(model: type[R], path: Path, what: str) -> R:
    try:
        expect_no_pipe(path)
        values = read_object(path, StoreError, f"{path}: {what}", "the file is damaged")
    except FileNotFoundError:
        raise StoreError(f"{path}: {what} is missing") from None
    except OSError as error:
        raise StoreError(f"{path}: {what} cannot be read ({error.strerror})") from None
    try:
        return parse_config(model, values, str(path))
    except ConfigError as error:
        raise StoreError(f"{what} is damaged, or from another version: {error}") from None


def read_info(root: Path) -> DatasetInfo:
    """Read dataset.json."""
    path = info_path(root)
    if not path.is_file():
        found = "a folder without dataset.json" if root.is_dir() else "no such folder"
        raise StoreError(f"{root}: expected a Solfa dataset, found {found}; make one with `solfa encode SOURCE {root}`")
    version = _peek_version(path)
    if version not in (None, FORMAT_VERSION):
        raise StoreError(
            f"{path}: format version {version}, but this Solfa reads version {FORMAT_VERSION}; update Solfa to read it"
        )
    return _read(DatasetInfo, path, "dataset.json")


def _peek_version(path: Path) -> object:
    try:
        return read_object(path, StoreError).get("format_version")
    except (OSError, StoreError):
        return None  # the full read says what is wrong


def read_commit(root: Path, shard: int) -> Commit:
    """Read the commit of one shard."""
    commit = _read(Commit, commit_path(root, shard), "the commit")
    if commit.shard != shard:
        raise StoreError(
            f"{commit_path(root, shard)}: this is the commit of shard {commit.shard}; the file was renamed"
        )
    return commit


def read_manifest(root: Path, number: int) -> Manifest:
    """Read one manifest."""
    return _read(Manifest, manifest_path(root, number), "the manifest")


def create_info(root: Path, info: DatasetInfo) -> DatasetInfo:
    """Write dataset.json unless it exists; return the one that is there."""
    create_once(root, info_path(root), record_bytes(info))
    return read_info(root)


def create_numbered_manifest(root: Path, manifest_of: Callable[[int], Manifest]) -> Manifest:
    """Write the next manifest, unless the latest one already pins the same content."""
    while True:
        existing = manifests(root)
        number = (existing[-1] if existing else 0) + 1
        manifest = manifest_of(number)
        if existing:
            latest = read_manifest(root, existing[-1])
            # A faster process may have pinned clips that were appended since `manifest` was made: never go back.
            if latest.digest == manifest.digest or len(latest.plans) > len(manifest.plans):
                return latest
        if create_once(root, manifest_path(root, number), record_bytes(manifest)):
            return manifest


def replace_record(root: Path, final: Path, record: Config) -> None:
    """Write a commit or a manifest over a damaged one."""
    temporary = temporary_path(root, final.name)
    try:
        temporary.write_bytes(record_bytes(record))
        put_in_place(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)


def file_record(path: Path, sha256: str, name: str | None = None) -> FileRecord:
    """Make the record of a file that was just written."""
    return FileRecord(name=name or path.name, size_bytes=path.stat().st_size, sha256=sha256)
