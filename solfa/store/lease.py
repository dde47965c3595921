"""Hints about who is working on which shard, or planning, so that two processes rarely do the same work.

A lease is a file; its age, and its owner if it runs on this machine, show whether the work is still going on. It is not
needed for correctness: if clocks are wrong or a lease is lost, a shard is encoded twice and the first commit wins.
"""

import errno
import os
import platform
import re
import stat
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from solfa.files.whole_files import TEMPORARY, link_once, temporary_path

STALE_SECONDS = 60.0
BEAT_SECONDS = 10.0
_OWNER_BYTES = 512
PLANNING = "planning"
"""Stands for a shard in the lease of a process that lists recordings."""


def lease_path(root: Path, shard: int | str) -> Path:
    """Return the path of a shard's lease."""
    return root / TEMPORARY / f"lease-{shard:0>5}"


def is_leased(root: Path, shard: int | str) -> bool:
    """Say whether someone seems to be working on a shard."""
    return _is_fresh(lease_path(root, shard))


def live_leases(root: Path) -> list[int]:
    """List the shards that someone seems to be working on."""
    paths = sorted((root / TEMPORARY).glob("lease-*"))
    numbered = [(path.name.removeprefix("lease-"), path) for path in paths]
    return [int(number) for number, path in numbered if re.fullmatch("[0-9]+", number) and _is_fresh(path)]


# A dataset of somebody else may have anything in a lease's place: links are not followed, pipes not waited for.
_READ = os.O_RDONLY
if sys.platform != "win32":
    _READ |= os.O_NONBLOCK | os.O_NOFOLLOW


def _is_fresh(path: Path) -> bool:
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return False
        owner = os.read(descriptor, _OWNER_BYTES).decode(errors="replace")
    finally:
        os.close(descriptor)
    return time.time() - found.st_mtime < STALE_SECONDS and not _is_dead(owner)


def _owner() -> str:
    return f"{platform.node()} {os.getpid()}"


def _is_dead(owner: str) -> bool:
    """Say whether the owner is a process on this machine that no longer exists."""
    host, _, pid = owner.partition(" ")
    if host != platform.node() or not pid.isdigit():
        return False
    if sys.platform == "win32":
        return False  # os.kill with 0 does not ask there, it sends Ctrl-C; only the age tells
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it exists and belongs to another user
    return False


class Lease:
    """A claim on a shard, kept fresh by a thread until it is released."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=path.name, daemon=True)
        self._thread.start()

    @classmethod
    def take(cls, root: Path, shard: int | str) -> "Lease | None":
        """Claim a shard unless someone else seems to have it; a stale claim is taken over."""
        path = lease_path(root, shard)
        # Signed before it gets its name: a lease without an owner would block the shard for everyone.
        signed = temporary_path(root, "claim")
        try:
            signed.write_text(_owner())
            if not link_once(signed, path):
                if _is_fresh(path):
                    return None
                signed.replace(path)
        finally:
            signed.unlink(missing_ok=True)
        return cls(path)

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            try:
                os.utime(self._path)
            except FileNotFoundError:
                return  # someone thought we were gone; only a hint is lost

    def release(self) -> None:
        """Release the shard; releasing twice is harmless."""
        self._over.set()
        self._thread.join()
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> "Lease":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
