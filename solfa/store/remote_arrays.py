"""The arrays of a shard that is in an object store: views of the whole file if the cache has it, else byte ranges.

A single clip costs one request. When more than a twentieth of a shard was read that way, all of it is fetched, unless
somebody plans what the cache holds (`solfa.data`). Every array is compared with its checksum each time it is read: a
damaged file of the cache is dropped, and the array read again from where it is kept.
"""

import zlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import pyarrow as pa

from solfa.errors import StoreError
from solfa.files.stores.place import Place
from solfa.store.file_cache import FileCache, Wanted
from solfa.store.local_copy import wanted_file
from solfa.store.schema import ArraySpec, Commit

WHOLE_SHARE = 0.05
"""Which share of a shard is read in ranges before the whole shard is fetched."""


class ArrayPlaces(NamedTuple):
    """Where the arrays of a shard are in its data file, and what they must be."""

    offsets: Sequence[int]
    lengths: Sequence[int]
    checksums: Sequence[int]


@final
class RemoteArrays:
    """Reads the arrays of one shard."""

    def __init__(self, root: Place, commit: Commit, spec: ArraySpec, places: ArrayPlaces, cache: FileCache) -> None:
        self._root, self._commit, self._spec, self._places, self._cache = root, commit, spec, places, cache
        self._mapped: np.ndarray[Any, Any] | None = None
        self._ahead: dict[int, np.ndarray[Any, Any]] = {}
        self._bytes_read = 0
        self._fetches = True

    @cached_property
    def wanted(self) -> Wanted:
        """The data file, as the cache knows it."""
        return wanted_file(self._root, "data", self._commit.data)

    def array(self, row: int) -> np.ndarray[Any, Any]:
        """Read the array of one clip, as [T, W]."""
        found = self._ahead.get(row)
        if found is None:
            found = self._from_cache(row)
        return self._read([row])[0] if found is None else found

    def anticipate(self, rows: Iterable[int]) -> None:
        """Read the arrays of some clips at once; they are kept until the next call, and nothing is fetched whole."""
        self._fetches = False
        self._ahead = {}
        whole = self._whole()
        missing = [row for row in dict.fromkeys(rows) if whole is None]
        self._ahead = dict(zip(missing, self._read(missing), strict=True))

    def _from_cache(self, row: int) -> np.ndarray[Any, Any] | None:
        whole = self._whole()
        if whole is None:
            return None
        start = self._places.offsets[row]
        content = whole[start : start + self._places.lengths[row]]
        if zlib.crc32(content.data) == self._places.checksums[row]:
            return self._shaped(content)
        self._cache.drop(self.wanted)
        self._mapped, self._fetches = None, False
        return None

    def _whole(self) -> np.ndarray[Any, Any] | None:
        """View the whole file if the cache has it; one that was removed since is let go, so that its space is free."""
        if self._mapped is not None and self._cache.has(self.wanted):
            return self._mapped
        path = self._cache.find(self.wanted)
        if path is None and self._fetches and self._bytes_read > WHOLE_SHARE * self._commit.data.size_bytes:
            path = self._cache.fetch(self.wanted)
            self._fetches = path is not None
        self._mapped = None if path is None else _map(path)
        return self._mapped

    def _read(self, rows: Sequence[int]) -> list[np.ndarray[Any, Any]]:
        ranges = [(start := self._places.offsets[row], start + self._places.lengths[row]) for row in rows]
        # An array of no frames has no bytes to ask for.
        asked = [(start, stop) for start, stop in ranges if stop > start]
        try:
            contents = iter(self.wanted.store.read_ranges(self.wanted.key, asked))
        except FileNotFoundError:
            raise StoreError(
                f"{self._root}/{self.wanted.key}: missing, although it was committed; run `solfa verify`"
            ) from None
        self._bytes_read += sum(stop - start for start, stop in asked)
        arrays = []
        for row, (start, stop) in zip(rows, ranges, strict=True):
            content = next(contents) if stop > start else b""
            if len(content) != stop - start or zlib.crc32(content) != self._places.checksums[row]:
                raise StoreError(f"{self._root}/{self.wanted.key}: an array is damaged; run `solfa verify`")
            arrays.append(self._shaped(np.frombuffer(content, np.uint8)))
        return arrays

    def _shaped(self, content: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return content.view(self._spec.numpy_dtype).reshape(-1, self._spec.width)


def _map(path: Path) -> np.ndarray[Any, Any] | None:
    try:
        with pa.memory_map(str(path)) as file:
            return np.frombuffer(file.read_buffer(), np.uint8)
    except FileNotFoundError:  # removed to make room since it was found
        return None
