"""Allow one run at a time in an experiment's folder, and say whether one is going: two would overwrite each other.

It is an operating system lock, so it goes away with the process that held it, however that ended. The file names the
holder and is emptied when a run ends in an orderly way: if nobody holds the lock and a name is there, that run was
killed.
"""

import json
import logging
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from solfa.errors import ConfigError, StoreError
from solfa.xp.layout import LOCK

_NOFOLLOW = 0
if sys.platform != "win32":
    _NOFOLLOW = os.O_NOFOLLOW

logger = logging.getLogger(__name__)

WAIT_SECONDS = 0.5
"""How long to try: whoever looks at the lock (`read_lock`) holds it for a moment."""


@dataclass(frozen=True)
class LockState:
    """Whether a run holds the lock of an experiment, as far as this machine can tell."""

    is_held: bool | None = False
    """None if it cannot be told from here: another machine took it, and not every file system shares its locks."""
    host: str = ""
    """Where the run is or was; empty if the last one ended in an orderly way."""
    process: int = 0

    @property
    def is_here(self) -> bool:
        """Whether the run is or was on this machine."""
        return self.host == platform.node()

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}" if self.host else "another process"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock an experiment's folder; refuse if another process holds it."""
    if sys.platform == "win32":
        raise ConfigError(f"{folder}: experiments need Linux or macOS, found Windows; run them in WSL")
    folder.mkdir(parents=True, exist_ok=True)
    with os.fdopen(_open(folder / LOCK), "r+") as file:
        try:
            _take(file.fileno())
        except BlockingIOError:
            raise ConfigError(
                f"{folder}: {_holder(folder, None)} is already running this experiment; wait for it, or stop it first"
            ) from None
        except OSError as error:  # some network file systems have no locks
            logger.warning("%s: cannot be locked (%s); make sure that nothing else runs this experiment", folder, error)
        file.truncate(0)
        json.dump({"host": platform.node(), "process": os.getpid()}, file)
        file.flush()
        try:
            yield
        finally:
            file.seek(0)
            file.truncate(0)


def read_lock(folder: Path) -> LockState:
    """Find out who runs an experiment, without getting in the way of a run that starts now."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | _NOFOLLOW)
    except OSError:  # it never ran, or whatever is there is not a lock
        return LockState()
    try:
        _flock(descriptor, alone=False)
    except BlockingIOError:
        return _holder(folder, True)
    except OSError:
        return _holder(folder, None)
    finally:
        os.close(descriptor)
    found = _holder(folder, False)
    return found if not found.host or found.is_here else _holder(folder, None)


def _take(descriptor: int) -> None:
    """Take the lock, or raise BlockingIOError if somebody keeps it."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return _flock(descriptor, alone=True)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _flock(descriptor: int, *, alone: bool) -> None:
    if sys.platform == "win32":
        raise OSError("Windows has no such locks")
    else:  # noqa: RET506 - so that type checkers leave it out on Windows
        import fcntl

        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | _NOFOLLOW, 0o666)
    except OSError:
        if path.is_symlink():
            raise StoreError(f"{path}: expected the lock of an experiment, found a link; remove the link") from None
        raise


def _holder(folder: Path, is_held: bool | None) -> LockState:
    """Read who took the lock last; the text is missing for a moment while it changes hands."""
    try:
        values = json.loads((folder / LOCK).read_text(encoding="utf-8") or "{}")
        return LockState(is_held, str(values.get("host", "")), int(values.get("process", 0)))
    except (ValueError, AttributeError, OSError):
        return LockState(is_held)
