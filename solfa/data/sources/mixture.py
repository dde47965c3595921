"""Several sources as one: end to end, or drawn by weight.

Without weights every clip comes up once per epoch. With weights an epoch draws as many clips as there are, and each
part's share is its weight; which clips come up twice or not at all is a pure function of digest, seed and epoch.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar, final

import numpy as np
from jaxtyping import Float64, Int64, Num

from solfa.data.sources.clip_group import ClipGroup, grouping
from solfa.data.sources.clip_source import ClipSource, DrawWeights, SourceClip, files_of_source
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.store.remote_files import RemoteFiles, joined_files
from solfa.store.stored_group import MappedArrays

T = TypeVar("T")


class MixturePart(NamedTuple):
    """One source of a mixture."""

    source: ClipSource
    weight: float | None = None
    """Its share of an epoch, relative to the other parts; either all parts have one or none."""
    clip_weights: Float64[np.ndarray, "clips"] | None = None
    """How often each clip is drawn, relative to the other clips of the part; None means all equally."""


@dataclass(frozen=True)
class MixedClip:
    """A clip of one of several sources, with an id that is unique among all of them."""

    id: str
    """The number of the source, a colon, and its id there: `1:drums/hit0.wav`."""
    clip: SourceClip
    """As its own source gives it."""

    @property
    def array(self) -> Num[np.ndarray, "T W"]:
        return self.clip.array

    @property
    def caption(self) -> str | None:
        return self.clip.caption

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self.clip.metadata


@final
class MixedGroup:
    """Clips of several sources, in any order."""

    def __init__(self, groups: Sequence[ClipGroup], places: Sequence[Int64[np.ndarray, "_"]]) -> None:
        self._groups = groups
        self._places = places
        """Which of all clips those of each group are."""

    def windows(self, starts: Int64[np.ndarray, "G"], stops: Int64[np.ndarray, "G"]) -> list[Num[np.ndarray, "_"]]:
        return self._merged(
            group.windows(starts[places], stops[places])
            for group, places in zip(self._groups, self._places, strict=True)
        )

    def width(self) -> int:
        return next(group.width() for group, places in zip(self._groups, self._places, strict=True) if len(places))

    def mapped_arrays(self) -> MappedArrays | None:
        found = [group.mapped_arrays() for group in self._groups]
        mapped = [arrays for arrays in found if arrays is not None]
        first = next((arrays for arrays in mapped if arrays.places.size), None)
        if first is None or len(mapped) < len(found):
            return None
        merged = np.empty((2, sum(map(len, self._places))), np.int64)
        for places, arrays in zip(self._places, mapped, strict=True):
            merged[:, places] = arrays.places
        return first._replace(places=merged)

    def mapped_ids(self) -> None:
        return None  # `mixed_id` is not stored anywhere

    def ids(self) -> list[str]:
        return self._merged(
            [mixed_id(number, clip_id) for clip_id in group.ids()] for number, group in enumerate(self._groups)
        )

    def captions(self) -> list[str | None]:
        return self._merged(group.captions() for group in self._groups)

    def metadata(self) -> list[Mapping[str, Any]]:
        return self._merged(group.metadata() for group in self._groups)

    def _merged(self, of_groups: Iterable[Sequence[T]]) -> list[T]:
        found: dict[int, T] = {}
        for places, values in zip(self._places, of_groups, strict=True):
            found.update(zip(places.tolist(), values, strict=True))
        return [found[place] for place in range(len(found))]


def mixed_id(number: int, clip_id: str) -> str:
    """Name a clip of the source with that number."""
    return f"{number}:{clip_id}"


class Mixture:
    """The clips of several sources as one source; a single source is passed through as it is."""

    def __init__(self, parts: Sequence[MixturePart]) -> None:
        if not parts:
            raise ConfigError("mixture: expected at least one source, found none")
        self._sources = [part.source for part in parts]
        self._groups = [grouping(source) for source in self._sources]
        self._starts = [0, *accumulate(len(source) for source in self._sources)]
        self.num_frames = np.concatenate([source.num_frames for source in self._sources])
        self.weights = _weights(parts)
        self.digest = _digest(parts, weighted=self.weights is not None)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int, /) -> SourceClip:
        if not 0 <= index < len(self):
            raise IndexError(f"expected a clip number below {len(self)}, found {index}")
        if len(self._sources) == 1:
            return self._sources[0][index]
        number = bisect_right(self._starts, index) - 1
        clip = self._sources[number][index - self._starts[number]]
        return MixedClip(mixed_id(number, clip.id), clip)

    def group(self, indices: Int64[np.ndarray, "G"], /) -> ClipGroup:
        if len(self._groups) == 1:
            return self._groups[0](indices)
        numbers = np.searchsorted(self._starts, indices, side="right") - 1
        places = [np.flatnonzero(numbers == number) for number in range(len(self._groups))]
        # Every source is asked, also for nothing: it lets go of what it has read for the group before.
        groups = [
            group(indices[these] - start)
            for group, these, start in zip(self._groups, places, self._starts[:-1], strict=True)
        ]
        return MixedGroup(groups, places)

    def remote_files(self) -> RemoteFiles | None:
        return joined_files([(files_of_source(source), len(source)) for source in self._sources])


def _weights(parts: Sequence[MixturePart]) -> DrawWeights | None:
    given = [part.weight is not None for part in parts]
    if any(given) and not all(given):
        raise ConfigError(f"weight: source {given.index(False)} has none, but others do; give all of them one, or none")
    if all(part.clip_weights is None for part in parts) and (len(parts) == 1 or not any(given)):
        return None
    clips = []
    for number, part in enumerate(parts):
        count = len(part.source)
        within = np.ones(count) if part.clip_weights is None else part.clip_weights
        total = float(np.cumsum(within)[-1]) if count else 0.0
        if not (np.isfinite(within).all() and (within >= 0).all() and total > 0):
            raise ConfigError(f"weight: the clips of source {number} need finite weights of at least 0, some above 0")
        share = count if part.weight is None else part.weight
        clips.append(within / total * share)
    numbers = [np.full(len(part.source), number, np.int64) for number, part in enumerate(parts)]
    return DrawWeights(np.concatenate(clips), np.concatenate(numbers))


def _digest(parts: Sequence[MixturePart], weighted: bool) -> str:
    digests = [part.source.digest for part in parts]
    if not weighted:
        return digests[0] if len(parts) == 1 else value_sha256(["mixture", digests])
    weights = [
        [part.weight, None if part.clip_weights is None else value_sha256(part.clip_weights.tolist())] for part in parts
    ]
    return value_sha256(["weighted mixture", digests, weights])
