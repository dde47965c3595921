"""Files of object stores that this machine keeps: named after their content, checked when they arrive, bounded.

SOLFA_CACHE_DIR/objects/NAME         a whole file
SOLFA_CACHE_DIR/objects/NAME.part    one that is on its way, as large as it will be; who created it fetches it

All processes of a machine share the folder. Only files with such names are ever removed from it.
"""

import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

from solfa.errors import ConfigError, StoreError
from solfa.files.cache_folder import cache_folder
from solfa.files.stores.protocol import Store

DEFAULT_BYTES = 32 << 30
STALLED_SECONDS = 60.0
"""A file on its way that did not grow for so long is nobody's."""
BUSY_SECONDS = 60.0
"""What somebody else used so recently is not removed to make room for what can also be read in pieces."""
WAIT_SECONDS = 0.02
_NAME = re.compile(r"[0-9a-f]{64}(\.part)?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)i?B?")
_UNITS = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

Uses = Mapping[str, float]
"""When files are used next, by their names: the smaller, the sooner."""
NOT_PLANNED: Uses = {}


class CachedFile(NamedTuple):
    """A file of the cache."""

    name: str
    size_bytes: int
    used: float
    """When it was last used."""


class Wanted(NamedTuple):
    """A file of an object store, by the name it has in the cache."""

    store: Store
    key: str
    name: str
    size_bytes: int
    sha256: str | None = None
    """What its content must be; None if only its version is known."""


@final
@dataclass(frozen=True)
class FileCache:
    """A folder of files, which together take at most `max_bytes`."""

    folder: Path
    max_bytes: int

    @classmethod
    def choose(cls, max_bytes: int | None = None) -> "FileCache":
        """Use the folder of SOLFA_CACHE_DIR, with the given size or that of SOLFA_CACHE_BYTES."""
        text = os.environ.get("SOLFA_CACHE_BYTES")
        return cls(
            cache_folder() / "objects",
            max_bytes if max_bytes is not None else _read_size(text) if text else DEFAULT_BYTES,
        )

    def find(self, wanted: Wanted) -> Path | None:
        """Return the path of a file if it is here, whole; it then counts as used."""
        path = self.folder / wanted.name
        try:
            if path.stat().st_size == wanted.size_bytes:
                os.utime(path)
                return path
        except OSError:  # it is not there, or the folder of the cache is none
            pass
        return None

    def has(self, wanted: Wanted) -> bool:
        """Say whether a file is here."""
        return (self.folder / wanted.name).exists()

    def fetch(self, wanted: Wanted, use: float = -1.0, uses: Uses = NOT_PLANNED) -> Path | None:
        """Return the path of a file, fetched if need be; None if there is no room for it.

        With `uses`, room is only made by removing what is used later than `use`, or what nobody has a use for.
        """
        while True:
            found = self.find(wanted)
            if found is not None:
                return found
            part = self.folder / f"{wanted.name}.part"
            try:
                with self._locked():
                    if not self._make_room(wanted, use, uses):
                        return None
                    with part.open("xb") as file:
                        file.truncate(wanted.size_bytes)
            except FileExistsError:
                self._wait_for(part)
                continue
            except OSError:
                return None  # a full disk, a folder that cannot be written to: it is read in pieces instead
            try:
                return self._download(wanted, part)
            except OSError as error:
                if isinstance(error, FileNotFoundError):
                    raise
                return None
            finally:
                part.unlink(missing_ok=True)

    def _download(self, wanted: Wanted, part: Path) -> Path:
        digest, size = hashlib.sha256(), 0
        with part.open("r+b") as file:
            for chunk in wanted.store.stream(wanted.key):
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        if size != wanted.size_bytes or wanted.sha256 not in (None, digest.hexdigest()):
            raise StoreError(f"{wanted.store}/{wanted.key}: its content is not what was committed; run `solfa verify`")
        path = self.folder / wanted.name
        part.replace(path)
        return path

    def drop(self, wanted: Wanted) -> None:
        """Remove a file, because it is not what it should be."""
        (self.folder / wanted.name).unlink(missing_ok=True)

    def kept(self) -> list[CachedFile]:
        """List what is here and what is on its way."""
        found = []
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name):
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        found.append(CachedFile(entry.name, status.st_size, status.st_mtime))
        return found

    def _make_room(self, wanted: Wanted, use: float, uses: Uses) -> bool:
        going = files_to_remove(self.kept(), wanted.size_bytes, self.max_bytes, use, uses, time.time())
        if going is None:
            return False
        for name in going:
            (self.folder / name).unlink(missing_ok=True)
        return True

    def _wait_for(self, part: Path) -> None:
        """Wait a moment for a file that somebody else fetches; give up one that does not grow."""
        with suppress(FileNotFoundError):
            if time.time() - part.stat().st_mtime > STALLED_SECONDS:
                part.unlink(missing_ok=True)
                return
        time.sleep(WAIT_SECONDS)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time decide what goes and what comes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if sys.platform == "win32":  # which has no flock: two processes at once may then exceed the size by one file
            yield
            return
        import fcntl

        # In a folder that several people use, a link in the lock's place is not written through.
        lock = os.open(self.folder.parent / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def files_to_remove(
    kept: list[CachedFile], needed: int, max_bytes: int, use: float, uses: Uses, now: float
) -> list[str] | None:
    """Choose what goes to make room: first what nobody plans to use, the oldest first, then what is used last.

    None if that is not enough: what is used before `use` stays, and so does what others used just now.
    """
    excess = sum(file.size_bytes for file in kept) + needed - max_bytes
    going: list[str] = []
    unplanned = sorted((file for file in kept if file.name not in uses), key=lambda file: file.used)
    planned = sorted((file for file in kept if file.name in uses), key=lambda file: uses[file.name], reverse=True)
    for file in (*unplanned, *planned):
        if excess <= 0:
            break
        is_on_its_way = file.name.endswith(".part") and now - file.used < STALLED_SECONDS
        is_busy = bool(uses) and file.name not in uses and now - file.used < BUSY_SECONDS
        if is_on_its_way or is_busy or (file.name in uses and uses[file.name] <= use):
            continue
        going.append(file.name)
        excess -= file.size_bytes
    return going if excess <= 0 else None


def _read_size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"SOLFA_CACHE_BYTES: expected a size such as 50GB, found {text!r}")
    return int(float(found[1]) * _UNITS[found[2]])
