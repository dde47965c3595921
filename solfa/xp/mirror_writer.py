"""Copy what a run saves to its mirror, in the background.

A file is copied after it has its name in the folder. The last state is copied after everything that belongs to it:
killed at any moment, what is there can be continued. If the mirror is away, training goes on, and what is missing is
tried again; a run that ends without having copied everything says so.
"""

import logging
import os
import secrets
import shutil
import threading
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, final

from solfa.errors import ConfigError, StoreError
from solfa.files.crash_points import crash_point
from solfa.files.stores.local_store import LocalStore
from solfa.files.stores.protocol import Store
from solfa.xp.layout import LAST, is_copy, mirrored_files
from solfa.xp.mirror import (
    PROGRESS,
    RunProgress,
    Stamp,
    progress_bytes,
    read_progress,
    read_record,
    stamp_of,
    write_record,
)

logger = logging.getLogger(__name__)

RETRY_SECONDS = 60.0
_SNAPSHOT = ".mirror.pt"
"""How the second names begin of files that wait to be copied; `remove_leftovers` knows names like these."""


class _Waiting(NamedTuple):
    stamp: Stamp
    snapshot: Path


@final
class MirrorWriter:
    """Copies what a run saves, as a context: at its end everything has been copied, or it says what has not."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._folder = store, folder
        self._copied: dict[str, Stamp] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._on_its_way: dict[str, _Waiting] = {}
        self._progress = RunProgress(0, 0)
        self._fault: Exception | None = None
        self._is_over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)

    def begin(self, progress: RunProgress | None) -> None:
        """Refuse a mirror that is further than the folder, or that cannot be written to; begin to copy."""
        found = read_progress(self._store)
        here = progress or RunProgress(0, 0)
        if found is not None and found > here:
            raise ConfigError(
                f"{self._folder}: is at {here}, but its mirror {self._store} is at {found}, so the run went on "
                "elsewhere; remove this folder to continue from the mirror, or choose another checkpoint.mirror"
            )
        self._store.replace(PROGRESS, progress_bytes(here))
        self._copied = read_record(self._folder, self._store)
        self._thread.start()
        if progress is not None:
            self.update(progress)

    def update(self, progress: RunProgress) -> None:
        """Let everything be copied that has changed in the folder; returns at once."""
        if not self._thread.is_alive():
            return
        with self._changed:
            self._progress = progress
            for name, path in mirrored_files(self._folder).items():
                stamp, waiting = stamp_of(path), self._waiting.get(name)
                newest = waiting or self._on_its_way.get(name)
                if stamp == (self._copied.get(name) if newest is None else newest.stamp):
                    continue
                if waiting is not None:
                    waiting.snapshot.unlink(missing_ok=True)
                self._waiting[name] = _Waiting(stamp, self._second_name(path))
            self._changed.notify()

    def _second_name(self, path: Path) -> Path:
        """Give a file, which is only ever replaced, another name under which it stays as it is."""
        other = self._folder / f"{_SNAPSHOT}.{secrets.token_hex(8)}"
        try:
            os.link(path, other)
        except OSError:  # this file system has no hard links
            shutil.copyfile(path, other)
        return other

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over or self._waiting)
                batch, self._waiting = self._waiting, {}
                self._on_its_way = batch
                progress = self._progress
                is_last = self._is_over
            self._fault = None
            try:
                self._copy(batch, progress)
            except Exception as error:  # told at the end, if it stays
                self._fault = error
                logger.warning("the mirror is behind: %s", error)
            with self._changed:
                self._on_its_way = {}
                if self._fault is not None:
                    self._put_back(batch)
                    # Not again at once: the store was tried for a while already.
                    self._changed.wait_for(lambda: self._is_over, timeout=RETRY_SECONDS)
                if is_last or (self._is_over and not self._waiting):
                    return

    def _copy(self, batch: dict[str, _Waiting], progress: RunProgress) -> None:
        """Copy some files, the state last, and remove copies of states that are no longer kept."""
        for name in sorted(batch, key=lambda name: name == LAST):
            _put(self._store, name, batch[name].snapshot)
            crash_point("mirror:after-file")
            self._copied[name] = batch[name].stamp
        if LAST in batch:
            # Behind the state: a mirror that is taken for less far than it is does no harm.
            self._store.replace(PROGRESS, progress_bytes(progress))
        gone = [name for name in self._copied if is_copy(name) and not (self._folder / name).exists()]
        self._store.delete(gone)
        for name in gone:
            del self._copied[name]
        write_record(self._folder, self._store, self._copied)

    def _put_back(self, batch: dict[str, _Waiting]) -> None:
        for name, waiting in batch.items():
            if name in self._waiting or self._copied.get(name) == waiting.stamp:
                waiting.snapshot.unlink(missing_ok=True)
            else:
                self._waiting[name] = waiting

    def __enter__(self) -> "MirrorWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.ident is None:
            return  # it never began
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join()
        for waiting in self._waiting.values():
            waiting.snapshot.unlink(missing_ok=True)
        if self._waiting and kind is None:
            raise StoreError(
                f"{self._folder}: the run has ended and everything is in this folder, but not in its mirror "
                f"({self._fault}); the same command copies what is missing"
            )


def _put(store: Store, key: str, file: Path) -> None:
    """Put a file under a key, and remove it."""
    if isinstance(store, LocalStore):  # which may be on another disk
        temporary = store.temporary("mirror")
        shutil.copyfile(file, temporary)
        store.replace(key, temporary)
        file.unlink()
    else:
        store.replace(key, file)
