"""Many clips of a dataset at once: where their arrays are is looked up for all together, the rest when asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa

from solfa.store.schema import ArraySpec
from solfa.store.shard_reader import ShardReader

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class MappedArrays(NamedTuple):
    """Where in this process's memory the arrays of some clips are, for as long as their group is kept."""

    places: Numbers
    """[2, G]: addresses, and numbers of frames."""
    width: int
    dtype: str


class _Files(NamedTuple):
    """What is known of every clip of a dataset whose shard was opened; the others have -1."""

    files: list[np.ndarray[Any, Any]]
    """The data file of each shard, as items."""
    firsts: Numbers
    """The item of its file with which a clip begins."""
    places: Numbers
    """[2, clips]: addresses, and numbers of frames."""


class _Ids(NamedTuple):
    """Where the ids are of every clip of a dataset whose shard was asked for them; the others have -1."""

    texts: dict[int, pa.Buffer]
    """Those of each shard."""
    places: Numbers
    """[2, clips]: addresses, and numbers of bytes."""


@final
class StoredClips:
    """Finds clips of a dataset by their positions among all that were committed.

    If the files are of this machine and read as they are, it remembers where in them the array of each clip begins.
    """

    def __init__(
        self, starts: Sequence[int], spec: ArraySpec, shard: Callable[[int], ShardReader], *, is_plain: bool
    ) -> None:
        self.width, self.shard, self._dtype = spec.width, shard, spec.dtype
        self.starts: Numbers = np.array(starts, np.int64)
        """The position of the first clip of each shard, and the number of clips."""
        count, shards = starts[-1] if is_plain else 0, len(starts) - 1
        self._files = _Files([np.empty(0)] * shards, _unknown(count)[0], _unknown(count)) if is_plain else None
        self._closed = set(range(shards))
        self._id_texts: _Ids | None = None
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
        if self._files is None:
            apart = zip(group.places(), starts.tolist(), stops.tolist(), strict=True)
            return [shard.array(row)[start:stop].reshape(-1) for (shard, row), start, stop in apart]
        self._open(group)
        files, firsts = self._files.files, self._files.firsts[group.positions]
        begins, ends = firsts + starts * self.width, firsts + stops * self.width
        spans = zip(group.numbers.tolist(), begins.tolist(), ends.tolist(), strict=True)
        return [files[number][begin:end] for number, begin, end in spans]

    def mapped_arrays(self, group: "StoredGroup") -> MappedArrays | None:
        """Find the arrays of a group in memory; None if they are read in another way."""
        if self._files is None:
            return None
        self._open(group)
        return MappedArrays(self._files.places.take(group.positions, axis=1), self.width, self._dtype)

    def _open(self, group: "StoredGroup") -> None:
        """Map the files of a group, unless they all are."""
        files = self._files
        if not self._closed or files is None:
            return
        for number in self._closed.intersection(group.numbers.tolist()):
            clips, (values, firsts, items) = self._clips(number), self.shard(number).mapped()
            files.files[number], files.firsts[clips] = values, firsts
            files.places[:, clips] = values.ctypes.data + firsts * values.itemsize, items // self.width
            self._closed.remove(number)

    def mapped_ids(self, group: "StoredGroup") -> Numbers | None:
        """Find the ids of a group in memory, [2, G]: addresses and numbers of bytes; None as for the arrays."""
        if self._files is None:
            return None
        if self._id_texts is None:
            self._id_texts = _Ids({}, _unknown(len(self._files.firsts)))
        texts, places = self._id_texts
        if len(texts) < len(self.starts) - 1:
            for number in set(group.numbers.tolist()).difference(texts):
                clips, (text, begins, ends) = self._clips(number), self.shard(number).id_texts()
                texts[number], places[:, clips] = text, (text.address + begins, ends - begins)
        return places.take(group.positions, axis=1)

    def _clips(self, number: int) -> slice:
        return slice(self.starts[number], self.starts[number + 1])


def _unknown(count: int) -> Numbers:
    return np.full((2, count), -1, np.int64)


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

    def mapped_arrays(self) -> MappedArrays | None:
        """Find the arrays in this process's memory; None if they are not there."""
        return self._clips.mapped_arrays(self)

    def mapped_ids(self) -> Numbers | None:
        """Find the ids in this process's memory as UTF-8, [2, G]: addresses and numbers of bytes."""
        return self._clips.mapped_ids(self)

    def ids(self) -> list[str]:
        ids = self._clips.ids
        return [ids(number)[row] for number, row in self._rows()]

    def captions(self) -> list[str | None]:
        return [shard.caption(row) for shard, row in self.places()]

    def metadata(self) -> list[Mapping[str, Any]]:
        return [shard.metadata(row) for shard, row in self.places()]
