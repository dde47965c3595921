"""Many clips of a dataset at once: where their arrays are is looked up for all together, the rest when asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np

from solfa.store.shard_reader import ShardReader

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@final
class StoredClips:
    """Finds clips of a dataset by their positions among all that were committed.

    If the files are of this machine and read as they are, it remembers where in them the array of each clip begins.
    """

    def __init__(
        self, starts: Sequence[int], width: int, shard: Callable[[int], ShardReader], *, is_plain: bool
    ) -> None:
        self.width, self.shard = width, shard
        self.starts: Numbers = np.array(starts, np.int64)
        """The position of the first clip of each shard, and the number of clips."""
        self._firsts: Numbers | None = np.full(starts[-1], -1, np.int64) if is_plain else None
        self._files: list[np.ndarray[Any, Any]] = [np.empty(0)] * (len(starts) - 1)
        self._ids: dict[int, list[str]] = {}

    def group(self, positions: Numbers) -> "StoredGroup":
        """Find some clips."""
        return StoredGroup(self, positions, self.starts.searchsorted(positions, side="right") - 1)

    def ids(self, number: int) -> list[str]:
        """List the ids of the clips of a shard."""
        found = self._ids.get(number)
        if found is None:
            found = self._ids[number] = self.shard(number).ids
        return found

    def windows(self, group: "StoredGroup", starts: Numbers, stops: Numbers) -> list[np.ndarray[Any, Any]]:
        """View some frames of each clip of a group, laid end to end."""
        if self._firsts is None:
            apart = zip(group.places(), starts.tolist(), stops.tolist(), strict=True)
            return [shard.array(row)[start:stop].reshape(-1) for (shard, row), start, stop in apart]
        firsts = self._firsts[group.positions]
        if len(firsts) and firsts.min() < 0:
            for number in np.unique(group.numbers).tolist():
                clips = slice(self.starts[number], self.starts[number + 1])
                self._files[number], self._firsts[clips] = self.shard(number).mapped()
            firsts = self._firsts[group.positions]
        files, begins, ends = self._files, firsts + starts * self.width, firsts + stops * self.width
        spans = zip(group.numbers.tolist(), begins.tolist(), ends.tolist(), strict=True)
        return [files[number][begin:end] for number, begin, end in spans]


@final
class StoredGroup:
    """Clips of one dataset, from any of its shards."""

    def __init__(self, clips: StoredClips, positions: Numbers, numbers: Numbers) -> None:
        self._clips, self.positions = clips, positions
        self.numbers = numbers
        """The shard of each clip."""

    def width(self) -> int:
        return self._clips.width

    def places(self) -> list[tuple[ShardReader, int]]:
        """Find the shard and the row of each clip."""
        shard = self._clips.shard
        return [(shard(number), row) for number, row in self._rows()]

    def _rows(self) -> Iterator[tuple[int, int]]:
        rows = self.positions - self._clips.starts[self.numbers]
        return zip(self.numbers.tolist(), rows.tolist(), strict=True)

    def windows(self, starts: Numbers, stops: Numbers) -> list[np.ndarray[Any, Any]]:
        """View some frames of each clip, laid end to end."""
        return self._clips.windows(self, starts, stops)

    def ids(self) -> list[str]:
        ids = self._clips.ids
        return [ids(number)[row] for number, row in self._rows()]

    def captions(self) -> list[str | None]:
        return [shard.caption(row) for shard, row in self.places()]

    def metadata(self) -> list[Mapping[str, Any]]:
        return [shard.metadata(row) for shard, row in self.places()]
