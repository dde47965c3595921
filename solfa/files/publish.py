"""Create files that are never seen half-written and never change once they exist.

The order is always the same: write a temporary file on the same file system, fsync it, give it its name with
`link` (which fails if the name is taken, so the first writer wins), fsync the directory, drop the temporary name.
A process killed between any two of these steps leaves at most a temporary file.
"""

import errno
import os
import secrets
import sys
from pathlib import Path

from solfa.files.crash import crash_point

TEMPORARY = ".tmp"
"""The folder inside a dataset that holds what is not published yet."""

_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


def temporary_path(root: Path, name: str) -> Path:
    """Name a file under `root` that nobody else uses and that readers ignore."""
    folder = root / TEMPORARY
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.{os.getpid()}.{secrets.token_hex(4)}"


def sync(path: Path) -> None:
    """Make a file's content, or a directory's list of names, survive a power cut."""
    if sys.platform == "win32":
        if path.is_dir():
            return  # no directory can be opened there; NTFS keeps a journal of its names
        descriptor = os.open(path, os.O_RDWR)  # what is open for reading only cannot be synced there
    else:
        descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish(temporary: Path, final: Path) -> bool:
    """Give a finished temporary file its name; return False if the name was already taken."""
    sync(temporary)
    if not final.parent.is_dir():
        final.parent.mkdir(parents=True, exist_ok=True)
        sync(final.parent.parent)
    crash_point("publish:before-link")
    try:
        won = link_once(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)
    crash_point("publish:after-link")
    sync(final.parent)
    return won


def link_once(temporary: Path, final: Path) -> bool:
    """Give a file a second name, if that name is free; return False if it is taken."""
    try:
        os.link(temporary, final)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        # exFAT and some network shares have no hard links. Renaming is as atomic, only the last of two writers
        # wins instead of the first; both wrote the same bytes, because what is written is a function of the plan.
        if final.exists():
            return False
        temporary.rename(final)
    return True


def create_once(root: Path, final: Path, content: bytes) -> bool:
    """Create `final` with `content`, atomically; return False if it was there before."""
    if final.exists():
        return False
    temporary = temporary_path(root, final.name)
    try:
        temporary.write_bytes(content)
        return publish(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)


def replace_atomically(path: Path, content: bytes) -> None:
    """Write a file that may be rewritten later, never leaving a partial one under its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
