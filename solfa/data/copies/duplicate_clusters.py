"""What a dataset contains twice: pairs of clips, and clusters of them with the time at which each begins."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from solfa.data.copies.copy_search import MIN_LANDMARKS, CopyFinder, CopyPair
from solfa.files.stores.place import Place
from solfa.store.dataset import Dataset


class Member(NamedTuple):
    """A clip of a cluster."""

    id: str
    start_seconds: float
    """When it begins if all members play together, in time; the first begins at 0."""


@dataclass(frozen=True)
class Duplicates:
    """The clips of a dataset that sound the same."""

    dataset: str
    other: str | None
    """The dataset that copies were looked for in; None if it is the same one."""
    num_clips: int
    """How many clips were compared."""
    num_unknown: int
    """How many have no fingerprint."""
    pairs: tuple[CopyPair, ...]
    """In the order of the dataset; with two datasets, the copy is a clip of the other one."""
    clusters: tuple[tuple[Member, ...], ...]
    """Clips that are copies of each other, directly or through others; the largest cluster first."""

    @property
    def num_copies(self) -> int:
        """How many clips would go if one of each cluster stayed."""
        return sum(len(cluster) - 1 for cluster in self.clusters)

    def as_json(self) -> dict[str, Any]:
        """Describe everything found, as plain values."""
        return {
            "dataset": self.dataset,
            "other": self.other,
            "num_clips": self.num_clips,
            "num_without_fingerprint": self.num_unknown,
            "min_landmarks": MIN_LANDMARKS,
            "clusters": [[member._asdict() for member in cluster] for cluster in self.clusters],
            "pairs": [_pair_json(pair) for pair in self.pairs],
        }


def _pair_json(pair: CopyPair) -> dict[str, Any]:
    copy = {name: value for name, value in pair.copy._asdict().items() if name not in ("row", "id")}
    return {"id": pair.id, "copy": pair.copy.id, "in_one_recording": pair.in_one_recording, **copy}


def find_duplicates(
    dataset: str | Place | Dataset,
    other: str | Place | Dataset | None = None,
    *,
    any_speed: bool = False,
    on_clip: Callable[[int, int], None] = lambda done, total: None,
) -> Duplicates:
    """Find all clips of a dataset that sound the same, or, with `other`, that sound like clips of another dataset.

    Segments of one recording are compared, too: a recording that repeats itself is found. `any_speed` also finds copies
    that are up to 3 % faster or slower, in 13 times the time.

    >>> from solfa.data import find_duplicates
    >>> found = find_duplicates("music.solfa")
    >>> found.num_clips, found.clusters
    (7, ())
    """
    finder = CopyFinder.of(dataset)
    if other is None:
        pairs = tuple(finder.pairs(any_speed=any_speed, on_clip=on_clip))
        where, num_unknown, separate = None, finder.num_unknown, False
    else:
        there = CopyFinder.of(other)
        pairs = tuple(_pairs_between(finder, there, any_speed, on_clip))
        where, num_unknown, separate = there.name, finder.num_unknown + there.num_unknown, True
    clusters = () if separate else cluster_pairs(pairs, finder.ids)
    return Duplicates(finder.name, where, len(finder.ids), num_unknown, pairs, clusters)


def _pairs_between(
    finder: CopyFinder, there: CopyFinder, any_speed: bool, on_clip: Callable[[int, int], None]
) -> Iterable[CopyPair]:
    for index, clip_id in enumerate(finder.ids):
        for copy in there.search(finder.landmarks_of(index), any_speed=any_speed):
            yield CopyPair(clip_id, copy)
        on_clip(index + 1, len(finder.ids))


def cluster_pairs(pairs: Sequence[CopyPair], ids: Sequence[str]) -> tuple[tuple[Member, ...], ...]:
    """Put clips together that are connected by pairs, in the order of `ids`, and find when each begins."""
    neighbours: dict[str, list[tuple[str, float]]] = {}
    for pair in pairs:
        # The first begins `offset` into the second, so the second begins that much earlier.
        neighbours.setdefault(pair.id, []).append((pair.copy.id, -pair.copy.offset_seconds))
        neighbours.setdefault(pair.copy.id, []).append((pair.id, pair.copy.offset_seconds))
    rank = {clip_id: number for number, clip_id in enumerate(ids) if clip_id in neighbours}
    clusters: list[tuple[Member, ...]] = []
    seen: set[str] = set()
    for clip_id in rank:
        if clip_id not in seen:
            begins = _reach(clip_id, neighbours)
            seen |= begins.keys()
            members = sorted(begins, key=rank.__getitem__)
            clusters.append(tuple(Member(name, round(begins[name], 3)) for name in members))
    return tuple(sorted(clusters, key=lambda cluster: (-len(cluster), rank[cluster[0].id])))


def _reach(start: str, neighbours: Mapping[str, list[tuple[str, float]]]) -> dict[str, float]:
    """Walk from clip to clip, nearest first, and add up how much later each begins."""
    begins, waiting = {start: 0.0}, deque([start])
    while waiting:
        here = waiting.popleft()
        for name, later in neighbours[here]:
            if name not in begins:
                begins[name] = begins[here] + later
                waiting.append(name)
    return begins
