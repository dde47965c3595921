"""Hints about who is working on which shard, or planning, so that two processes rarely do the same work.

A lease is a file; its age, and its owner if it runs on this machine, show whether the work is still going on. It is not
needed for correctness: if clocks are wrong or a lease is lost, a shard is encoded twice and the first commit wins.
"""

import errno
import os
import platform
import re
import secrets
import stat
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, final

from solfa.errors import StoreError
from solfa.files.stores.bucket_store import BucketStore
from solfa.files.stores.place import Place, store_at
from solfa.files.whole_files import TEMPORARY, link_once, temporary_path

STALE_SECONDS = 60.0
BEAT_SECONDS = 10.0
_OWNER_BYTES = 512
PLANNING = "planning"
"""Stands for a shard in the lease of a process that lists recordings."""


def lease_key(shard: int | str) -> str:
    """Return the key of a shard's lease."""
    return f"{TEMPORARY}/lease-{shard:0>5}"


def is_leased(root: Place, shard: int | str) -> bool:
    """Say whether someone seems to be working on a shard."""
    return _lease_at(root, lease_key(shard)).is_fresh()


def live_leases(root: Place) -> list[int]:
    """List the shards that someone seems to be working on."""
    names = [name for name in store_at(root).names(TEMPORARY) if re.fullmatch("lease-[0-9]+", name)]
    live = [name for name in names if _lease_at(root, f"{TEMPORARY}/{name}").is_fresh()]
    return [int(name.removeprefix("lease-")) for name in live]


class LeaseFile(Protocol):
    """The file of a lease, in a folder or in an object store."""

    def claim(self, owner: str) -> bool:
        """Create it, signed from the start; a stale one is taken over. False if someone else has it."""
        ...

    def is_fresh(self) -> bool: ...

    def owner(self) -> str | None:
        """Read who signed it; None if there is no lease."""
        ...

    def beat(self, owner: str) -> bool:
        """Keep it fresh; False if it is no longer ours, and only a hint is lost."""
        ...

    def remove(self) -> None: ...


def _lease_at(root: Place, key: str) -> LeaseFile:
    return LocalLease(root, root / key) if isinstance(root, Path) else BucketLease(root, key)


@final
@dataclass(frozen=True)
class LocalLease:
    """A lease in a folder; beating sets the time of the file."""

    root: Path
    path: Path

    def claim(self, owner: str) -> bool:
        # Signed before it gets its name: a lease without an owner would block the shard for everyone.
        while True:
            signed = temporary_path(self.root, "claim")
            try:
                signed.write_text(owner)
                if not link_once(signed, self.path):
                    if self.is_fresh():
                        return False
                    signed.replace(self.path)
            except FileNotFoundError:
                continue  # who came to an end just now removed what looked like nobody's
            finally:
                signed.unlink(missing_ok=True)
            return True

    def is_fresh(self) -> bool:
        return _is_fresh(self.path)

    def owner(self) -> str | None:
        found = _read(self.path)
        return None if found is None else found[0]

    def beat(self, owner: str) -> bool:
        try:
            os.utime(self.path)
        except FileNotFoundError:
            return False
        return True

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


@final
@dataclass(frozen=True)
class BucketLease:
    """A lease in an object store; beating writes the object again, and the clock that counts is that of the store."""

    store: BucketStore
    key: str

    def claim(self, owner: str) -> bool:
        if not self.store.create(self.key, owner.encode()):
            if self.is_fresh():
                return False
            self.store.replace(self.key, owner.encode())
        return True

    def is_fresh(self) -> bool:
        found = self.store.head(self.key)
        if found is None or self.store.now() - found.modified >= STALE_SECONDS:
            return False
        owner = self.owner()
        return owner is not None and not _is_dead(owner)

    def owner(self) -> str | None:
        try:
            return self.store.read(self.key)[:_OWNER_BYTES].decode(errors="replace")
        except FileNotFoundError:
            return None

    def beat(self, owner: str) -> bool:
        try:
            if self.store.read(self.key) != owner.encode():
                return False
            self.store.replace(self.key, owner.encode())
        except FileNotFoundError:
            return False
        except StoreError:
            pass  # the store may come back; if not, whoever writes the shard says so
        return True

    def remove(self) -> None:
        with suppress(StoreError):
            self.store.delete([self.key])


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


def _unique_owner() -> str:
    """Sign so that nobody else signs alike: in an object store, an object of the same content is one's own."""
    return f"{lease_owner()} {secrets.token_hex(8)}"


def _is_dead(owner: str) -> bool:
    """Say whether the owner is a process on this machine that no longer exists."""
    host, pid = (*owner.split(" "), "")[:2]
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


def drop_lease(root: Place, shard: int, owner: str) -> None:
    """Give up a shard on behalf of an owner who is known to be gone, so that nobody waits for its lease to age."""
    file = _lease_at(root, lease_key(shard))
    if file.owner() == owner:
        file.remove()


class Lease:
    """A claim on a shard, kept fresh by a thread until it is released."""

    def __init__(self, file: LeaseFile, owner: str, name: str) -> None:
        self._file, self.owner = file, owner
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=name, daemon=True)
        self._thread.start()

    @classmethod
    def take(cls, root: Place, shard: int | str) -> "Lease | None":
        """Claim a shard unless someone else seems to have it; a stale claim is taken over."""
        file = _lease_at(root, lease_key(shard))
        owner = lease_owner() if isinstance(root, Path) else _unique_owner()
        return cls(file, owner, lease_key(shard)) if file.claim(owner) else None

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            if not self._file.beat(self.owner):
                return  # someone thought we were gone; only a hint is lost

    def release(self) -> None:
        """Release the shard; releasing twice is harmless."""
        if self._over.is_set():
            return
        self._over.set()
        self._thread.join()
        self._file.remove()

    def __enter__(self) -> "Lease":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
