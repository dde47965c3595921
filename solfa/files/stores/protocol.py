"""What a dataset needs from the place it is kept in: create, read, list, delete, and nothing that changes a file.

A key is a path below the store, with slashes: `commit/00017.json`. No key ends in a slash or begins with one.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """What a store says about a file without reading it."""

    key: str
    size_bytes: int
    version: str
    """What changes when the content does: the ETag of an object, the modification time of a file."""
    modified: float
    """When it was written, in seconds since 1970 by the clock of whoever keeps it."""


class Store(Protocol):
    """A folder or a prefix; its text is what a user types to name it.

    A file that is missing raises FileNotFoundError. Whatever else goes wrong in an object store is a StoreError.
    """

    def create(self, key: str, content: bytes | Path) -> bool:
        """Create a file; return False, and change nothing, if another one has its name.

        A path is a finished file of `temporary`, which is gone afterwards.
        """
        ...

    def replace(self, key: str, content: bytes | Path) -> None:
        """Put a file in the place of another one, or of none; there is no moment with half of it."""
        ...

    def read(self, key: str) -> bytes: ...

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read some bytes, each range as start and stop; where the file ends early, fewer come back."""
        ...

    def stream(self, key: str) -> Iterator[bytes]:
        """Read a file piece by piece."""
        ...

    def head(self, key: str) -> Entry | None:
        """Look at a file; None if there is none."""
        ...

    def names(self, folder: str) -> list[str]:
        """List the names directly below a folder, in order; none if there is no such folder."""
        ...

    def list(self, folder: str = "", after: str | None = None) -> Iterator[Entry]:
        """List all files below a folder, one page at a time; `after` continues behind that key."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files; one that is not there is not missed."""
        ...

    def temporary(self, name: str) -> Path:
        """Name a file of this machine that nobody else uses, where something can be written before it is created."""
        ...
