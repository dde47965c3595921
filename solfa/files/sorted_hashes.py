"""Sort more hashes than should be in memory: blocks of them are sorted and put aside, then merged piece by piece.

block 0   ─── sorted ───┐
block 1   ─── sorted ───┼── the first 256th of every block ──► merged, then the second, and so on
block 2   ─── sorted ───┘

Hashes are evenly spread over all numbers of 64 bits, so a 256th of the range holds about a 256th of them.
"""

from array import array
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager

import numpy as np
import numpy.typing as npt

from solfa.files.scratch_file import ScratchFile

Numbers = npt.NDArray[np.int64]
"""Not with its shape: to import jaxtyping takes 3 MB, and what starts often does not need it otherwise."""

ROWS_PER_BLOCK = 16_384
_NUM_PIECES = 256
_EDGES = np.arange(-_NUM_PIECES // 2, _NUM_PIECES // 2, dtype=np.int64) << 56
"""Where the pieces begin: numbers with the same first byte are in one."""


class HashSorter(AbstractContextManager["HashSorter"]):
    """Rows of `width` numbers of 64 bits, of which the first is a hash, to be sorted by it."""

    def __init__(self, width: int, rows_per_block: int = ROWS_PER_BLOCK) -> None:
        self._columns = [array("q") for _ in range(width)]
        self._rows_per_block = rows_per_block
        self._aside = ScratchFile()
        self._blocks: list[tuple[int, Numbers]] = []
        """Where each begins, and with which of its rows the pieces do."""
        self.num_rows = 0

    def add(self, *columns: Iterable[int]) -> None:
        """Take in rows, column by column."""
        before = len(self._columns[0])
        for column, values in zip(self._columns, columns, strict=True):
            column.extend(values)
        self.num_rows += len(self._columns[0]) - before
        if len(self._columns[0]) >= self._rows_per_block:
            self._put_aside()

    def merged(self) -> Iterator[Numbers]:
        """Hand out all rows, sorted, piece by piece; equal hashes are in the same piece."""
        self._put_aside()
        for piece in range(_NUM_PIECES):
            parts = [self._rows_at(place, int(at[piece]), int(at[piece + 1])) for place, at in self._blocks]
            rows = np.concatenate([self._none(), *parts])
            yield rows[np.argsort(rows[:, 0])]

    def repeated(self) -> set[int]:
        """Find the hashes that are there more than once."""
        found: set[int] = set()
        for rows in self.merged():
            found.update(rows[1:, 0][rows[1:, 0] == rows[:-1, 0]].tolist())
        return found

    @property
    def num_blocks(self) -> int:
        return len(self._blocks)

    def block(self, index: int) -> Numbers:
        """Read the rows again that were put aside together: those that were added one after the other."""
        place, begins = self._blocks[index]
        return self._rows_at(place, 0, int(begins[-1]))

    def close(self) -> None:
        """Forget everything."""
        self._aside.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def _none(self) -> Numbers:
        return np.empty((0, len(self._columns)), np.int64)

    def _put_aside(self) -> None:
        if not self._columns[0]:
            return
        rows = np.stack([np.frombuffer(column, np.int64) for column in self._columns], axis=1)
        self._columns = [array("q") for _ in self._columns]
        rows = rows[np.argsort(rows[:, 0])]
        begins = np.append(np.searchsorted(rows[:, 0], _EDGES), len(rows))
        self._blocks.append((self._aside.append(rows.tobytes()), begins))

    def _rows_at(self, place: int, begin: int, end: int) -> Numbers:
        row_bytes = 8 * len(self._columns)
        data = self._aside.read(place + row_bytes * begin, row_bytes * (end - begin))
        return np.frombuffer(data, np.int64).reshape(-1, len(self._columns))
