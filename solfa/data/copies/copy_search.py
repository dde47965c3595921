"""Find clips that sound the same: copies of one clip, or all pairs of a dataset, by the landmarks stored with them."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from solfa.data.copies.landmark_index import Agreement, LandmarkIndex
from solfa.data.sources.hold_out import recording_of
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.files.stores.place import Place
from solfa.ops.landmark_version import LANDMARKS_VERSION
from solfa.ops.landmarks import (
    LANDMARK_FRAME_RATE,
    Landmarks,
    at_speed,
    find_landmarks,
    unpack_landmarks,
)
from solfa.store.dataset import Dataset, open_dataset
from solfa.store.file_cache import FileCache
from solfa.store.landmark_file import StoredLandmarks

MIN_LANDMARKS = 8
"""How many have to agree in a copy. `benchmarks/fingerprints.py` counts how many do by chance, and in copies."""
SPEEDS = tuple(1 + step / 200 for step in range(-6, 7))
"""From 3 % slower to 3 % faster; half a step changes the frequencies by no more than half a bin, below 1.6 kHz."""
KEPT_CLIPS = 50_000
"""The index of a larger dataset is kept in a file: making it takes longer than reading it."""


class Copy(NamedTuple):
    """A clip that a sound is a copy of, at least for a while."""

    row: int
    """Which clip of the dataset."""
    id: str
    landmarks: int
    """How many agree, which is the score: `MIN_LANDMARKS` and more do not come by chance."""
    offset_seconds: float
    """Where the sound would begin in the clip; negative if it begins earlier."""
    start_seconds: float
    """Where in the sound they begin to agree."""
    seconds: float
    """For how long they do."""
    speed: float = 1.0
    """How many times as fast the clip is."""

    @property
    def is_copy(self) -> bool:
        """Whether so many landmarks agree that it cannot be chance."""
        return self.landmarks >= MIN_LANDMARKS


class CopyPair(NamedTuple):
    """Two clips that sound the same for a while."""

    id: str
    copy: Copy

    @property
    def in_one_recording(self) -> bool:
        """Whether both are segments of one recording, which repeats itself."""
        return recording_of(self.id) == recording_of(self.copy.id)


class CopyFinder:
    """Finds sounds among the clips of a dataset.

    >>> import numpy as np
    >>> from solfa.data import CopyFinder
    >>> finder = CopyFinder.of("music.solfa")
    >>> len(finder.ids), finder.nearest(np.zeros((1, 24_000)), sample_rate=24_000)  # silence is like nothing
    (7, None)
    """

    def __init__(self, name: str, ids: list[str], landmarks: StoredLandmarks, index: LandmarkIndex) -> None:
        self.name, self.ids, self.landmarks, self._index = name, ids, landmarks, index

    @classmethod
    def of(cls, *datasets: str | Place | Dataset) -> "CopyFinder":
        """Read the fingerprints of one dataset or of several; it is an error if one has none."""
        opened = [dataset if isinstance(dataset, Dataset) else open_dataset(dataset) for dataset in datasets]
        stored = [dataset.landmarks() for dataset in opened]
        for dataset, landmarks in zip(opened, stored, strict=True):
            if len(dataset) and not landmarks.is_known.any():
                raise ConfigError(
                    f"{dataset.path}: has no fingerprints of its content; add them with "
                    f"`solfa fingerprint {dataset.path} --source SOURCE`, where SOURCE is the audio it was encoded from"
                )
        together = stored[0] if len(stored) == 1 else StoredLandmarks.join(stored)
        ids = [clip_id for dataset in opened for clip_id in dataset.ids()]
        index = _index_of([dataset.digest for dataset in opened], together)
        return cls(", ".join(str(dataset.path) for dataset in opened), ids, together, index)

    def row_of(self, clip_id: str) -> int:
        """Find a clip by its id."""
        if clip_id not in self._rows:
            raise KeyError(f"{self.name}: none of {len(self.ids)} clips has the id {clip_id!r}")
        return self._rows[clip_id]

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {clip_id: row for row, clip_id in enumerate(self.ids)}

    @property
    def num_unknown(self) -> int:
        """How many clips have no fingerprint, and are never found."""
        return int((~self.landmarks.is_known).sum())

    def landmarks_of(self, index: int) -> Landmarks:
        """Return the landmarks of a clip."""
        return unpack_landmarks(self.landmarks.of(index))

    def search(self, sound: Landmarks, *, min_landmarks: int = MIN_LANDMARKS, any_speed: bool = False) -> list[Copy]:
        """Find the clips that share landmarks with a sound, those that share most first; at any speed within 3 %."""
        best: dict[int, Copy] = {}
        for speed in SPEEDS if any_speed else (1.0,):
            query = sound if speed == 1.0 else at_speed(sound, speed)
            for found in self._index.agreements(query, min_landmarks):
                if found.clip not in best or found.landmarks > best[found.clip].landmarks:
                    best[found.clip] = self._copy(found, speed)
        return sorted(best.values(), key=lambda copy: (-copy.landmarks, copy.row))

    def _copy(self, found: Agreement, speed: float) -> Copy:
        times = (found.offset, found.first, found.last - found.first)
        offset, start, seconds = (frames / LANDMARK_FRAME_RATE for frames in times)
        return Copy(found.clip, self.ids[found.clip], found.landmarks, offset, start * speed, seconds * speed, speed)

    def nearest(self, audio: Float[np.ndarray, "C N"], sample_rate: int) -> Copy | None:
        """Find the clip that shares most with audio [C, N]; None if three landmarks do not agree anywhere."""
        return next(iter(self.search(find_landmarks(audio, sample_rate), min_landmarks=3)), None)

    def pairs(
        self, *, any_speed: bool = False, on_clip: Callable[[int, int], None] = lambda done, total: None
    ) -> Iterator[CopyPair]:
        """Find all pairs of clips of the dataset that sound the same, each once."""
        for index, clip_id in enumerate(self.ids):
            for copy in self.search(self.landmarks_of(index), any_speed=any_speed):
                if copy.row > index:
                    yield CopyPair(clip_id, copy)
            on_clip(index + 1, len(self.ids))


def _index_of(digests: Sequence[str], landmarks: StoredLandmarks) -> LandmarkIndex:
    """Sort landmarks into an index, or read the one that was made before."""
    if len(landmarks.is_known) < KEPT_CLIPS:
        return LandmarkIndex.build(lambda: [landmarks])
    known = int(landmarks.is_known.sum())
    name = value_sha256([list(digests), LANDMARKS_VERSION, known, len(landmarks.numbers)])
    path = FileCache.choose().folder.parent / "landmarks" / f"{name}.index"
    if not path.exists():
        LandmarkIndex.build(lambda: [landmarks]).save(path)
    return LandmarkIndex.load(path)


def find_copies(dataset: str | Place | Dataset | CopyFinder, clip_id: str, *, any_speed: bool = False) -> list[Copy]:
    """Find the other clips of a dataset that sound like one of its clips, the most similar first.

    Pass a `CopyFinder` to look for several: reading the fingerprints takes longer than finding a copy.

    >>> from solfa.data import find_copies
    >>> [copy.id for copy in find_copies("music.solfa", "drums/loop.flac")]  # it has no copy
    []
    """
    finder = dataset if isinstance(dataset, CopyFinder) else CopyFinder.of(dataset)
    row = finder.row_of(clip_id)
    return [copy for copy in finder.search(finder.landmarks_of(row), any_speed=any_speed) if copy.row != row]
