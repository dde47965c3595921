"""Hints about who is working on which shard, so that two encoders rarely do the same work.

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


def lease_path(root: Path, shard: int) -> Path:
    """Return the path of a shard's lease."""
    return root / TEMPORARY / f"lease-{shard:05d}"


def is_leased(root: Path, shard: int) -> bool:
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


def _read(path: Path) -> tuple[str, float] | None:
    """Return the owner of a lease and when it last showed a sign of life; None if there is no lease."""
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        return os.read(descriptor, _OWNER_BYTES).decode(errors="replace"), found.st_mtime
    finally:
        os.close(descriptor)


def _is_fresh(path: Path) -> bool:
    found = _read(path)
    return found is not None and time.time() - found[1] < STALE_SECONDS and not _is_dead(found[0])


def lease_owner() -> str:
    """Say who signs the leases of this process."""
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


def drop_lease(root: Path, shard: int, owner: str) -> None:
    """Give up a shard on behalf of an owner who is known to be gone, so that nobody waits for its lease to age."""
    found = _read(lease_path(root, shard))
    if found is not None and found[0] == owner:
        lease_path(root, shard).unlink(missing_ok=True)


class Lease:
    """A claim on a shard, kept fresh by a thread until it is released."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=path.name, daemon=True)
        self._thread.start()

    @classmethod
    def take(cls, root: Path, shard: int) -> "Lease | None":
        """Claim a shard unless someone else seems to have it; a stale claim is taken over."""
        path = lease_path(root, shard)
        # Signed before it gets its name: a lease without an owner would block the shard for everyone.
        signed = temporary_path(root, "claim")
        try:
            signed.write_text(lease_owner())
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
