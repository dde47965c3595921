"""What training and validation share: recordings that belong together because one holds copies of the other."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from solfa.data.copies.copy_search import MIN_LANDMARKS
from solfa.data.copies.landmark_index import LandmarkIndex
from solfa.data.sources.hold_out import recording_of
from solfa.errors import ConfigError
from solfa.ops.landmarks import unpack_landmarks
from solfa.store.dataset import Dataset
from solfa.store.landmark_file import StoredLandmarks


class Leak(NamedTuple):
    """How much of what a run validates on is in what it trains on."""

    num_copies: int
    """Clips of validation that are copies of training clips."""
    num_clips: int
    """Clips of validation."""
    num_unknown: int
    """Clips of either that have no fingerprint, and were not compared."""
    first: tuple[str, str, int] | None
    """One of the copies, what it is a copy of, and how many landmarks agree."""

    @property
    def share(self) -> float:
        return self.num_copies / max(1, self.num_clips)


def find_leak(train: Sequence[Dataset], valid: Sequence[Dataset]) -> Leak | None:
    """Count the clips of validation that are copies of training clips; None if there is nothing to compare."""
    learned, judged = (StoredLandmarks.join(part.landmarks() for part in parts) for parts in (train, valid))
    unknown = int((~learned.is_known).sum() + (~judged.is_known).sum())
    if not learned.is_known.any() or not judged.is_known.any():
        return None
    index = LandmarkIndex.build(lambda: [learned])
    copies: list[tuple[int, int, int]] = []
    for clip in range(len(judged.is_known)):
        found = index.agreements(unpack_landmarks(judged.of(clip)), MIN_LANDMARKS)
        if found:
            best = max(found, key=lambda match: match.landmarks)
            copies.append((clip, best.clip, best.landmarks))
    if not copies:
        return Leak(0, len(judged.is_known), unknown, None)
    clip, original, landmarks = copies[0]
    names = _id_at(valid, clip), _id_at(train, original)
    return Leak(len(copies), len(judged.is_known), unknown, (*names, landmarks))


def _id_at(parts: Sequence[Dataset], number: int) -> str:
    for part in parts:
        if number < len(part):
            return part.ids()[number]
        number -= len(part)
    raise IndexError(number)


def content_groups(parts: Sequence[Dataset]) -> Mapping[str, str]:
    """Name a group for every recording: those that hold copies of each other, directly or through others, share one.

    A group is named after the first of its recordings. A dataset without fingerprints is an error.
    """
    return _groups(tuple(_Known(part) for part in parts))


class _Known:
    """A dataset that equals another with the same clips, so that what is found once serves every stage."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __hash__(self) -> int:
        return hash(self.dataset.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and other.dataset.digest == self.dataset.digest


@lru_cache(maxsize=4)
def _groups(parts: tuple[_Known, ...]) -> Mapping[str, str]:
    stored = [part.dataset.landmarks() for part in parts]
    for part, landmarks in zip(parts, stored, strict=True):
        if not landmarks.is_known.all():
            raise ConfigError(
                f"hold_out.by=content: {int((~landmarks.is_known).sum())} of {len(part.dataset)} clips of "
                f"{part.dataset.path} have no fingerprint of their content; add them with "
                f"`solfa fingerprint {part.dataset.path} --source SOURCE`, or set hold_out.by=recording"
            )
    together = StoredLandmarks.join(stored)
    recordings = [recording_of(clip_id) for part in parts for clip_id in part.dataset.ids()]
    index = LandmarkIndex.build(lambda: [together])
    links = {
        (recordings[clip], recordings[match.clip])
        for clip in range(len(recordings))
        for match in index.agreements(unpack_landmarks(together.of(clip)), MIN_LANDMARKS)
        if match.clip > clip and recordings[match.clip] != recordings[clip]
    }
    return join_groups(sorted(set(recordings)), links)


def join_groups(names: Sequence[str], links: set[tuple[str, str]]) -> dict[str, str]:
    """Name each after the least of those that links connect it with."""
    number = {name: place for place, name in enumerate(sorted(names))}
    group = np.arange(len(number))

    def root(place: int) -> int:
        while group[place] != place:
            group[place] = group[group[place]]
            place = int(group[place])
        return place

    for one, other in sorted(links):
        ends = sorted((root(number[one]), root(number[other])))
        group[ends[1]] = ends[0]
    ordered = sorted(number)
    return {name: ordered[root(place)] for name, place in number.items()}
