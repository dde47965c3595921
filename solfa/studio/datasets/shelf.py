"""The datasets of a studio, by the name that they have in addresses."""

import threading
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from starlette.exceptions import HTTPException

from solfa.files.stores.place import Place, read_place
from solfa.store.dataset import Dataset, open_dataset
from solfa.store.layout import committed_shards, manifests
from solfa.studio.datasets.clip_index import ClipIndex
from solfa.studio.datasets.clip_sounds import ClipSounds
from solfa.ui.html.dataset_page import dataset_page
from solfa.ui.html.report_data import ReportPage

LOOK_SECONDS = 2.0
"""How long a dataset is taken to be what it was: one that is being encoded grows."""
STATISTICS_VALUES = 20_000_000
"""From how many codes or latents statistics are computed: somebody waits for the page."""


class DatasetView:
    """A dataset as it is at one moment, with what was computed about it."""

    def __init__(self, dataset: Dataset, version: tuple[int, int]) -> None:
        self.dataset, self.version = dataset, version
        self._lock = threading.Lock()

    @property
    def is_finished(self) -> bool:
        """Whether all that was planned is there."""
        return self.version[0] > 0

    @property
    def index(self) -> ClipIndex:
        """Its clips, to search among."""
        with self._lock:
            return self._index

    @cached_property
    def _index(self) -> ClipIndex:
        return ClipIndex.of(self.dataset)

    @property
    def report(self) -> ReportPage:
        """Its statistics."""
        with self._lock:
            return self._report

    @cached_property
    def _report(self) -> ReportPage:
        return dataset_page(
            self.dataset, num_clips=0, max_values=STATISTICS_VALUES, failures_place="on the page of failures"
        )


class ShelvedDataset:
    """A dataset that is opened again when it has grown."""

    def __init__(self, name: str, place: Place, sources: Sequence[Path]) -> None:
        self.name, self.place = name, place
        self._lock = threading.Lock()
        self._view = self._open()
        self._looked = time.monotonic()
        self.sounds = ClipSounds(self._view.dataset.info, sources)

    def _open(self) -> DatasetView:
        version = self._newest()
        return DatasetView(open_dataset(self.place, partial=not version[0], verify="once"), version)

    def _newest(self) -> tuple[int, int]:
        finished = len(manifests(self.place))
        return finished, 0 if finished else len(committed_shards(self.place))

    @property
    def view(self) -> DatasetView:
        """The dataset as it is now; the same object as long as nothing was added."""
        with self._lock:
            if time.monotonic() - self._looked > LOOK_SECONDS:
                if self._newest() != self._view.version:
                    self._view = self._open()
                self._looked = time.monotonic()
            return self._view


class Shelf:
    """All datasets, in the order in which they were added."""

    def __init__(self, sources: Sequence[Path] = ()) -> None:
        """`sources` are folders of original audio."""
        self._sources = tuple(sources)
        self._datasets: dict[str, ShelvedDataset] = {}

    def __iter__(self) -> Iterator[ShelvedDataset]:
        return iter(list(self._datasets.values()))

    def __len__(self) -> int:
        return len(self._datasets)

    def add(self, place: str | Place, sources: Sequence[Path] = ()) -> ShelvedDataset:
        """Open a dataset; one that is already there stays as it is. `sources` are originals of this one alone."""
        root = read_place(place)
        root = root.absolute() if isinstance(root, Path) else root
        for shelved in self:
            if shelved.place == root:
                return shelved
        plain = root.name or "dataset"
        name = next(name for name in _numbered(plain) if name not in self._datasets)
        shelved = self._datasets[name] = ShelvedDataset(name, root, (*sources, *self._sources))
        return shelved

    def prepare(self) -> None:
        """Read what the first search of each dataset needs."""
        for shelved in self:
            shelved.view.index.prepare()

    def find(self, name: str) -> ShelvedDataset:
        """Find a dataset by its name in an address; it is a page that is not there if there is none."""
        if name not in self._datasets:
            raise HTTPException(404, f"there is no dataset {name!r} in this studio")
        return self._datasets[name]


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1
