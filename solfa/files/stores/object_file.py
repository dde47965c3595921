"""One object of a store, read here and there without downloading all of it."""

import hashlib
from collections import OrderedDict
from functools import cached_property
from typing import final

from solfa.errors import StoreError
from solfa.files.stores.bucket_store import BucketStore
from solfa.files.stores.protocol import Entry

FIRST_BYTES = 1 << 16
LARGEST_BYTES = 1 << 22
"""How much is read at least: more and more while somebody reads on, since every request takes its time."""
BLOCKS_KEPT = 8


@final
class ObjectFile:
    """An object, by its store and key; what the store says about it is asked once."""

    def __init__(self, store: BucketStore, key: str) -> None:
        self.store, self.key = store, key

    def __str__(self) -> str:
        return f"{self.store}/{self.key}"

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @cached_property
    def entry(self) -> Entry | None:
        """Its size and version; None if there is no such object."""
        return self.store.head(self.key)

    def exists(self) -> bool:
        """Say whether there is such an object."""
        return self.entry is not None


def version_number(etag: str) -> int:
    """Turn an ETag into a number that fits where files have the time of their last change."""
    return int(hashlib.sha256(etag.encode()).hexdigest()[:15], 16)


@final
class ObjectReader:
    """Reads bytes of an object at any position, ahead of whoever reads on: `ahead_bytes` at once, if that is known."""

    def __init__(self, file: ObjectFile, size_bytes: int, ahead_bytes: int = 0) -> None:
        self._file, self._size, self._ahead_bytes = file, size_bytes, ahead_bytes
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._next_bytes = FIRST_BYTES
        self.fault: StoreError | None = None
        """Why the store did not answer: decoders take that for the end of the data."""

    @property
    def identity(self) -> tuple[object, ...]:
        """What changes when the content does."""
        entry = self._file.entry
        return (str(self._file), entry.version if entry else "")

    def read_at(self, count: int, position: int) -> bytes:
        """Read up to `count` bytes; fewer at the end."""
        parts = []
        stop = min(position + count, self._size)
        while position < stop:
            start, block = self._block_at(position, stop - position)
            part = block[position - start : stop - start]
            if not part:
                break
            parts.append(part)
            position += len(part)
        return b"".join(parts)

    def _block_at(self, position: int, count: int) -> tuple[int, bytes]:
        for start, block in self._blocks.items():
            if start <= position < start + len(block):
                self._blocks.move_to_end(start)
                return start, block
        reads_on = any(start + len(block) == position for start, block in self._blocks.items())
        more = max(self._next_bytes * 2, self._ahead_bytes)
        self._next_bytes = min(more, LARGEST_BYTES) if reads_on else FIRST_BYTES
        stop = min(position + max(count, self._next_bytes), self._size)
        try:
            (block,) = self._file.store.read_ranges(self._file.key, [(position, stop)])
        except StoreError as error:
            self.fault = error
            raise
        self._blocks[position] = block
        if len(self._blocks) > BLOCKS_KEPT:
            self._blocks.popitem(last=False)
        return position, block
