"""Copies of a clip, found when somebody asks: the fingerprints of a dataset are read once for each of its states."""

import threading
from typing import NamedTuple, final

from solfa.data.copies.copy_search import Copy, CopyFinder, find_copies
from solfa.store.dataset import Dataset

KEPT_FINDERS = 2
"""One for a million clips takes 1.6 GB."""


class ClipCopy(NamedTuple):
    """Another clip that sounds like one, and in a few words how much."""

    id: str
    words: str


@final
class CopyLookup:
    """Keeps what it read of the datasets that were asked about last."""

    def __init__(self) -> None:
        self._finders: dict[str, CopyFinder] = {}
        self._lock = threading.Lock()

    def copies(self, dataset: Dataset, clip_id: str) -> list[ClipCopy]:
        """Find the clips that sound like one; an error says how to add fingerprints that a dataset does not have."""
        return [ClipCopy(copy.id, _words(copy)) for copy in find_copies(self._finder(dataset), clip_id)]

    def _finder(self, dataset: Dataset) -> CopyFinder:
        with self._lock:
            finder = self._finders.pop(dataset.digest, None) or CopyFinder.of(dataset)
            self._finders[dataset.digest] = finder  # the last one asked about is the last one to go
            while len(self._finders) > KEPT_FINDERS:
                del self._finders[next(iter(self._finders))]
            return finder


def _words(copy: Copy) -> str:
    return f"{copy.seconds:.1f} s sound the same, from {copy.start_seconds:.1f} s on: {copy.landmarks} landmarks agree"
