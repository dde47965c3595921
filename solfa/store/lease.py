"""Hints about who is at work on which shard, so that two encoders rarely do the same work.

A lease is a file whose age says whether its owner is alive. Nothing depends on it for correctness: if clocks lie or a
lease is lost, a shard is encoded twice and the first commit wins.
"""

import os
import threading
import time
from pathlib import Path
from types import TracebackType

from solfa.files.publish import TEMPORARY

STALE_SECONDS = 60.0
BEAT_SECONDS = 10.0


def lease_path(root: Path, shard: int) -> Path:
    """Name the lease of one shard."""
    return root / TEMPORARY / f"lease-{shard:05d}"


def is_leased(root: Path, shard: int) -> bool:
    """Say whether somebody seems to be at work on a shard."""
    return _is_fresh(lease_path(root, shard))


def live_leases(root: Path) -> list[int]:
    """List the shards that somebody seems to be at work on."""
    paths = sorted((root / TEMPORARY).glob("lease-*"))
    return [int(path.name.removeprefix("lease-")) for path in paths if _is_fresh(path)]


def _is_fresh(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < STALE_SECONDS
    except FileNotFoundError:
        return False


class Lease:
    """A claim on a shard, kept fresh by a thread while the context is open."""

    def __init__(self, root: Path, shard: int) -> None:
        self._path = lease_path(root, shard)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"lease-{shard}", daemon=True)

    @classmethod
    def take(cls, root: Path, shard: int) -> "Lease | None":
        """Claim a shard unless somebody else seems to have it; a stale claim is taken over."""
        path = lease_path(root, shard)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            if _is_fresh(path):
                return None
            path.touch()
        return cls(root, shard)

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            self._path.touch()

    def __enter__(self) -> "Lease":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._path.unlink(missing_ok=True)
