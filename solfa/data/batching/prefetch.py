"""Fetch the files of a remote dataset ahead of the batches that read them, in the order in which they are needed.

Batches never wait for a file: a clip whose file is not here is read as a byte range. So a file is only fetched if there
is room, and room is only made by removing what is used after the last use of the new file, or not at all. In a shuffled
epoch, which needs every file until its end, as many files as fit stay; read in order, each makes room for the next.
"""

import functools
import logging
import math
import threading
from collections.abc import Callable
from typing import final

import numpy as np

from solfa.data.batching.epoch_plan import EpochPlan
from solfa.errors import SolfaError
from solfa.spelling import size
from solfa.store.remote_files import RemoteFiles

log = logging.getLogger(__name__)

FETCHES_AT_ONCE = 4
WAIT_SECONDS = 0.2


@final
class Timetable:
    """At which steps of an epoch each file is used."""

    def __init__(self, plan: EpochPlan, files: RemoteFiles, first_step: int) -> None:
        self.steps: dict[int, list[int]] = {}
        for step in range(first_step, len(plan)):
            for file in np.unique(files.of_clips[plan.batch(step).clips]).tolist():
                if file >= 0:
                    self.steps.setdefault(file, []).append(step)

    def order(self) -> list[int]:
        """List the files by their first use."""
        return sorted(self.steps, key=lambda file: self.steps[file][0])

    def next_use(self, file: int, step: int) -> float:
        """Find when a file is used next, at `step` or later; never is infinite."""
        uses = self.steps.get(file, [])
        place = int(np.searchsorted(uses, step))
        return float(uses[place]) if place < len(uses) else math.inf

    def last_use(self, file: int) -> int:
        """Find when a file is used last."""
        return self.steps[file][-1]


@final
class Prefetch:
    """Threads that fetch the files of an epoch; `step` says how far the batches are."""

    def __init__(self, plan: EpochPlan, files: RemoteFiles, step: Callable[[], int]) -> None:
        self._plan, self._files, self._step = plan, files, step
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._has_told = False
        # Daemons: a program that ends does not wait for a file.
        threading.Thread(target=self._begin, name="prefetch", daemon=True).start()

    def close(self) -> None:
        """Fetch nothing more."""
        self._is_over.set()

    def _begin(self) -> None:
        table = Timetable(self._plan, self._files, self._step())
        self._left = table.order()
        for number in range(min(FETCHES_AT_ONCE, len(self._left))):
            threading.Thread(target=self._fetch_files, args=(table,), name=f"prefetch-{number}", daemon=True).start()

    def _fetch_files(self, table: Timetable) -> None:
        try:
            while not self._is_over.is_set():
                with self._lock:
                    if not self._left:
                        return
                    file = self._left.pop(0)
                while not self._fetch(file, table):
                    self._tell_once()
                    if self._is_over.wait(WAIT_SECONDS):
                        return
        except SolfaError as error:
            log.warning("%s; reading on without fetching whole files", error)

    def _fetch(self, file: int, table: Timetable) -> bool:
        """Fetch a file unless it is no longer needed; False if there is no room yet."""
        step = self._step()
        if table.next_use(file, step) == math.inf:
            return True
        wanted = self._files.files[file]
        uses = {other.name: table.next_use(number, step) for number, other in enumerate(self._files.files)}
        return self._files.cache.fetch(wanted, table.last_use(file), uses) is not None

    def _tell_once(self) -> None:
        with self._lock:
            if self._has_told:
                return
            self._has_told = True
        total = sum(wanted.size_bytes for wanted in self._files.files)
        held = self._files.cache.max_bytes
        _warn_once(
            f"{self._files.files[0].store}: the cache of {size(held)} does not hold the {size(total)} of this epoch, "
            f"so some clips are read from the store one by one; set SOLFA_CACHE_BYTES={round(total * 1.05)} to keep "
            "all of them"
        )


@functools.cache
def _warn_once(sentence: str) -> None:
    """Every epoch begins to fetch anew; what is wrong with all of them is said in the first."""
    log.warning("%s", sentence)
