"""A copy of an experiment that outlives its machine: in a bucket, or in another folder (`checkpoint.mirror`).

MIRROR/SIG/progress.json     how far the run was when its state was last copied
MIRROR/SIG/NAME              the files of the folder that a run continues from, and its samples, under their names

`solfa.xp.mirror_writer` fills it. A run whose folder is gone continues from it.
"""

import json
import logging
import os
import secrets
import time
from pathlib import Path
from typing import NamedTuple

from solfa.errors import StoreError
from solfa.files.crash_points import crash_point
from solfa.files.stores.local_store import LocalStore
from solfa.files.stores.place import expand_place, store_at
from solfa.files.stores.protocol import Store
from solfa.files.whole_files import replace_atomically, sync
from solfa.xp.layout import ARGV, LAST, MIRRORED, SAMPLES

logger = logging.getLogger(__name__)

PROGRESS = "progress.json"
WAIT_SECONDS = 0.2
Stamp = tuple[int, int]
"""The size of a file and the time of its last change."""


class RunProgress(NamedTuple):
    """How far a run has got, to compare a folder with its mirror."""

    epoch: int
    num_updates: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}" + (f" after {self.num_updates} updates" if self.num_updates else "")


def mirror_of(place: str, signature: str) -> Store:
    """Return the store that holds the copy of an experiment."""
    root = store_at(expand_place(place))
    return LocalStore(root.path / signature) if isinstance(root, LocalStore) else root / signature


def restore_folder(store: Store, folder: Path) -> bool:
    """Bring back the files of a folder that has no state, the state last; say whether there was anything to bring."""
    if (folder / LAST).exists() or store.head(LAST) is None:
        return False
    entries = {entry.key: entry for entry in store.list()}
    wanted = [key for key in sorted(entries) if key not in (PROGRESS, LAST, ARGV) and _is_ours(folder, key)]
    stamps = {key: _fetch(store, key, entries[key].size_bytes, folder) for key in (*wanted, LAST)}
    if not (folder / ARGV).exists() and ARGV in entries:
        _fetch(store, ARGV, entries[ARGV].size_bytes, folder)
    write_record(folder, store, stamps)
    logger.info("brought back %d files of the experiment from its mirror %s", len(stamps), store)
    return True


def wait_until_restored(store: Store, folder: Path) -> None:
    """Wait for the first process to bring back a folder; if it fails, whoever started this process ends it."""
    while not (folder / LAST).exists() and store.head(LAST) is not None:
        time.sleep(WAIT_SECONDS)


def _is_ours(folder: Path, key: str) -> bool:
    """Leave out what no run writes, and what would lead elsewhere: others may be allowed to write to the mirror."""
    parts = key.split("/")
    is_known = parts[0] == SAMPLES if len(parts) > 1 else key.endswith((".json", ".pt"))
    is_inside = not any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts)
    ways = (folder / Path(*parts[:count]) for count in range(1, len(parts) + 1))
    return is_known and is_inside and not any(way.is_symlink() for way in ways)


def _fetch(store: Store, key: str, size_bytes: int, folder: Path) -> Stamp:
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with temporary.open("wb") as file:
            file.writelines(store.stream(key))
        if temporary.stat().st_size != size_bytes:
            raise StoreError(f"{store}/{key}: changed while it was read; run the same command again")
        sync(temporary)
        temporary.replace(path)
        crash_point("mirror:brought-back")
    finally:
        temporary.unlink(missing_ok=True)
    return stamp_of(path)


def clear_mirror(store: Store) -> None:
    """Delete the copy of an experiment that starts over."""
    store.delete([entry.key for entry in store.list()])


def stamp_of(path: Path) -> Stamp:
    """Look at a file: the stamp changes when its content does."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def progress_bytes(progress: RunProgress) -> bytes:
    """Write down how far a run is."""
    return json.dumps(progress._asdict()).encode()


def read_progress(store: Store) -> RunProgress | None:
    """Read how far the run was whose state is in the mirror; None if there is none."""
    try:
        found = json.loads(store.read(PROGRESS))
        return RunProgress(int(found["epoch"]), int(found["num_updates"]))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        raise StoreError(f"{store}/{PROGRESS}: not written by Solfa; choose another checkpoint.mirror") from None


def read_record(folder: Path, store: Store) -> dict[str, Stamp]:
    """Read which files were copied to this mirror; a file that is not what we write is as good as none."""
    try:
        found = json.loads((folder / MIRRORED).read_bytes())
        files = found["files"] if found["mirror"] == str(store) else {}
        return {name: (int(size), int(changed)) for name, (size, changed) in files.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def write_record(folder: Path, store: Store, files: dict[str, Stamp]) -> None:
    """Write down which files were copied, as they were."""
    replace_atomically(folder / MIRRORED, json.dumps({"mirror": str(store), "files": files}).encode())
