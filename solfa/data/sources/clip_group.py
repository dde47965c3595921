"""The clips of a batch, taken together: their arrays, and, when somebody asks, what is known about them."""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Int64, Num

from solfa.data.sources.clip_source import ClipSource, SourceClip
from solfa.store.stored_group import MappedArrays


@runtime_checkable
class ClipGroup(Protocol):
    """Some clips of a source, in the order in which they were asked for."""

    def windows(self, starts: Int64[np.ndarray, "G"], stops: Int64[np.ndarray, "G"]) -> list[Num[np.ndarray, "_"]]:
        """View some frames of each clip, laid end to end."""
        ...

    def width(self) -> int:
        """Numbers per frame, the same for all clips of a source."""
        ...

    def mapped_arrays(self) -> MappedArrays | None:
        """Say where the arrays are in this process's memory, if they are there."""
        ...

    def mapped_ids(self) -> Int64[np.ndarray, "2 G"] | None:
        """Say where the ids are in this process's memory as UTF-8, and how many bytes they take, if they are there."""
        ...

    def ids(self) -> list[str]: ...
    def captions(self) -> list[str | None]: ...
    def metadata(self) -> list[Mapping[str, Any]]: ...


@runtime_checkable
class GroupedSource(Protocol):
    """A source that finds many clips at once, without an object for each of them."""

    def group(self, indices: Int64[np.ndarray, "G"], /) -> ClipGroup:
        """Get ready to read some clips: where they are far away, all at once."""
        ...


Group = Callable[[Int64[np.ndarray, "G"]], ClipGroup]


def grouping(source: ClipSource) -> Group:
    """Choose how the clips of a source are found: many at once if it knows how to, else one by one."""
    return source.group if isinstance(source, GroupedSource) else partial(SeparateClips.of, source)


@final
class SeparateClips:
    """Clips of a source that gives them one by one."""

    def __init__(self, clips: list[SourceClip]) -> None:
        self._clips = clips

    @classmethod
    def of(cls, source: ClipSource, indices: Int64[np.ndarray, "G"]) -> "SeparateClips":
        """Take clips from a source."""
        return cls([source[index] for index in indices.tolist()])

    def windows(self, starts: Int64[np.ndarray, "G"], stops: Int64[np.ndarray, "G"]) -> list[Num[np.ndarray, "_"]]:
        spans = zip(self._clips, starts.tolist(), stops.tolist(), strict=True)
        return [clip.array[start:stop].reshape(-1) for clip, start, stop in spans]

    def width(self) -> int:
        return int(self._clips[0].array.shape[1])

    def mapped_arrays(self) -> None:
        return None

    def mapped_ids(self) -> None:
        return None

    def ids(self) -> list[str]:
        return [clip.id for clip in self._clips]

    def captions(self) -> list[str | None]:
        return [clip.caption for clip in self._clips]

    def metadata(self) -> list[Mapping[str, Any]]:
        return [clip.metadata for clip in self._clips]


@final
class Told:
    """What is known about the clips of a group, read when somebody asks; pickled, it has all been read."""

    def __init__(self, group: ClipGroup) -> None:
        self._group = group

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._group.ids())

    @cached_property
    def captions(self) -> tuple[str | None, ...]:
        return tuple(self._group.captions())

    @cached_property
    def metadata(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self._group.metadata())

    def __getstate__(self) -> dict[str, Any]:
        return {"ids": self.ids, "captions": self.captions, "metadata": self.metadata}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Told) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash(self.ids)  # metadata may hold lists
