"""Create files that nobody sees half-written and that never change once they exist.

The order is always the same: write a temporary file on the same file system, fsync it, give it its name with
`link` (which fails if the name is taken, so the first writer wins), fsync the directory, remove the temporary name.
A process killed between any two of these steps leaves at most a temporary file behind.

A folder that is a link is never written to or removed from: a dataset from somebody else could point it at your files.
The folder that a user names may be a link; the folders inside it may not.
"""

import errno
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from solfa.errors import ConfigError, StoreError
from solfa.files.crash_points import crash_point

TEMPORARY = ".tmp"
"""The folder inside a dataset for files that are not published yet."""

_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


def expect_real_folder(folder: Path) -> None:
    """Refuse a folder that is a link to another one."""
    if folder.is_symlink():
        raise StoreError(
            f"{folder}: this is a link to another folder, and Solfa neither writes nor removes anything through links; "
            "replace it with a real folder"
        )


def expect_no_link(path: Path) -> None:
    """Refuse a file or folder that is a link, before something is written to it in place."""
    if path.is_symlink():
        raise StoreError(
            f"{path}: this is a link, and Solfa neither writes nor removes anything through links; remove it, or put "
            "what it points to in its place"
        )


def expect_real_way(root: Path, folder: Path) -> None:
    """Refuse a folder below `root` if it, or one on the way to it, is a link."""
    way = folder.relative_to(root)
    for part in (way, *way.parents):
        if part != Path():
            expect_real_folder(root / part)


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Remove files of a folder by name, never through a link in its place."""
    expect_real_folder(folder)
    if sys.platform == "win32":  # which has no names relative to an open folder
        for name in names:
            (folder / name).unlink(missing_ok=True)
        return
    # Relative to the open folder, so that nobody can swap in a link between looking and removing.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def temporary_path(root: Path, name: str) -> Path:
    """Name a file under `root` that nobody else uses and that readers ignore.

    >>> from pathlib import Path
    >>> from solfa.files import temporary_path
    >>> one, other = temporary_path(Path("shared"), "codes.bin"), temporary_path(Path("shared"), "codes.bin")
    >>> one.parent == other.parent, one.name == other.name
    (True, False)
    """
    folder = root / TEMPORARY
    expect_real_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.{os.getpid()}.{secrets.token_hex(4)}"


def sync(path: Path) -> None:
    """Make a file's content, or a directory's list of names, survive a power cut."""
    if sys.platform == "win32":
        if path.is_dir():
            return  # a directory cannot be opened there; NTFS keeps a journal of its names
        descriptor = os.open(path, os.O_RDWR)  # what is open only for reading cannot be synced there
    else:
        descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish(temporary: Path, final: Path) -> bool:
    """Give a finished temporary file its name; return False if the name was already taken."""
    sync(temporary)
    expect_real_folder(final.parent)
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
        # exFAT and some network shares have no hard links. Renaming is just as atomic, except that the last of two
        # writers wins instead of the first; both wrote the same bytes, because the content follows from the plan.
        if final.exists():
            return False
        temporary.rename(final)
    return True


def create_once(root: Path, final: Path, content: bytes) -> bool:
    """Create `final` with `content`, atomically; return False if it already exists.

    >>> from pathlib import Path
    >>> from solfa.files import create_once
    >>> root = Path("shared")
    >>> create_once(root, root / "owner", b"me"), create_once(root, root / "owner", b"you")
    (True, False)
    >>> (root / "owner").read_text()
    'me'
    """
    if final.exists():
        return False
    temporary = temporary_path(root, final.name)
    try:
        temporary.write_bytes(content)
        return publish(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)


def put_in_place(temporary: Path, final: Path) -> None:
    """Let a finished temporary file take the place of a damaged or missing one; there is no moment without either."""
    sync(temporary)
    expect_real_folder(final.parent)
    final.parent.mkdir(parents=True, exist_ok=True)
    crash_point("repair:before-file")
    temporary.replace(final)
    crash_point("repair:after-file")
    sync(final.parent)


def replace_atomically(path: str | Path, content: bytes) -> None:
    """Write a file that may be rewritten later, never leaving a partial one under its name.

    >>> from pathlib import Path
    >>> from solfa.files import replace_atomically
    >>> replace_atomically("notes.json", b"[]")
    >>> replace_atomically("notes.json", b"{}")
    >>> Path("notes.json").read_text()
    '{}'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """Yield a temporary directory that gets its final name once everything in it is written."""
    if directory.exists() or directory.is_symlink():
        raise ConfigError(f"{directory}: already exists; choose a new directory, or remove it")
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        yield temporary
        _permit_what_is_usual(temporary)
        temporary.rename(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _permit_what_is_usual(folder: Path) -> None:
    """Give a folder and its files the permissions of new ones; mkdtemp and safetensors leave theirs to their owner."""
    usual = folder / ".usual"
    usual.touch()
    permissions = stat.S_IMODE(usual.stat().st_mode)
    usual.unlink()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(permissions)
    folder.chmod(permissions | (permissions & 0o444) >> 2)  # who may read may enter
