"""The recordings of a plan, found by the hashes of their keys: in little memory, however many there are."""

import sys
from array import array
from contextlib import AbstractContextManager, ExitStack
from enum import Enum

import numpy as np

from solfa.encoding.recording_versions import UNKNOWN, Version
from solfa.files.scratch_file import ScratchFile
from solfa.files.sorted_hashes import ROWS_PER_BLOCK, HashSorter, Numbers
from solfa.files.stores.place import Place
from solfa.store.plan_file import iterate_plan_batches

ROWS_PER_BUCKET = 64
_ROW_BYTES = 16
_SEVERAL = -1
"""Instead of a version, where a key has several. Python's hashes are never -1."""


class Known(Enum):
    """What the digests of a plan say of a recording."""

    NO = "it was not planned"
    AS_IT_IS = "it was planned, and has not changed as far as that is known"
    UNSURE = "it was planned with another size or time; or, very rarely, one was whose key has the same hash"


class PlannedRecordings(AbstractContextManager["PlannedRecordings"]):
    """The recordings of a dataset as they were when they were planned, in 16 bytes for each, which are not in memory.

    These are two hashes: one of the recording's key, and one of another form of its key, its size and its time. If both
    are what they were, the recording is taken to be: two different ones would have to agree in 128 bits. If only the
    first is, the plan is asked for the recording itself, so that 64 bits alone decide nothing.

    They are sorted, and put aside in a file. What stays in memory is where those begin whose first bits are the same, a
    number for 32 to 64 recordings. So one is found wherever the source lists it, by reading about a kilobyte. Most
    sources list recordings as they were planned: these are found among those that were planned near the one before,
    without reading anything.
    """

    def __init__(self, hashes: HashSorter) -> None:
        """Take in the hashes of keys, and those of keys and versions."""
        bits = max(1, (hashes.num_rows // ROWS_PER_BUCKET).bit_length())
        self._shift, self._first = 64 - bits, -1 << (bits - 1)
        self._hashes, self._rows, has_several = hashes, ScratchFile(), False
        counts = np.zeros(1 + (1 << bits), np.int64)
        for piece in hashes.merged():
            rows = _one_row_per_key(piece)
            self._rows.append(rows.tobytes())
            if len(rows):
                buckets = 1 + (rows[:, 0] >> self._shift) - self._first
                found = np.bincount(buckets - buckets[0])
                counts[buckets[0] : buckets[0] + len(found)] += found
            # Those near the one before do not tell whether a recording was planned again, far away.
            has_several |= bool((rows[:, 1] == _SEVERAL).any())
        self._begins = array("q", np.cumsum(counts).tobytes())
        self._near = None if has_several else NearHashes(hashes)

    @classmethod
    def read(cls, root: Place, rows_per_block: int = ROWS_PER_BLOCK) -> "PlannedRecordings":
        """Read the plan of a dataset."""
        with ExitStack() as unless_read:
            hashes = unless_read.enter_context(HashSorter(2, rows_per_block))
            for rows in iterate_plan_batches(root, ["key", "size_bytes", "mtime_ns"]):
                keys, sizes, times = rows.to_pydict().values()
                hashes.add(map(hash, keys), map(version_hash, keys, sizes, times))
            found = cls(hashes)
            unless_read.pop_all()
            return found

    @property
    def num_near(self) -> int:
        """How many rows are in memory."""
        return 0 if self._near is None else self._near.num_rows

    def find(self, key: str, version: Version) -> Known:
        """Say whether a recording was planned, and is what it was then."""
        wanted = hash(key)
        planned = None if self._near is None else self._near.get(wanted)
        if planned is None:
            planned = self._look_up(wanted)
            if planned is None:
                return Known.NO
            if self._near is not None:
                self._near.move_on(wanted)
        is_known = planned == version_hash(key, *version) or planned == version_hash(key, *UNKNOWN)
        return Known.AS_IT_IS if is_known else Known.UNSURE

    def __exit__(self, *error: object) -> None:
        self._hashes.close()
        self._rows.close()

    def _look_up(self, wanted: int) -> int | None:
        bucket = (wanted >> self._shift) - self._first
        begin, end = self._begins[bucket], self._begins[bucket + 1]
        rows = self._rows.read(_ROW_BYTES * begin, _ROW_BYTES * (end - begin))
        place = _place_of(wanted, rows)
        return None if place < 0 else int.from_bytes(rows[place + 8 : place + 16], sys.byteorder, signed=True)


class NearHashes:
    """A few hashes of a plan, around the place that a source has reached as long as it lists what was planned."""

    def __init__(self, hashes: HashSorter) -> None:
        self._hashes, self._next = hashes, 0
        self._newest: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._tries_in, self._pause = 0, 1

    @property
    def num_rows(self) -> int:
        return len(self._newest) + len(self._before)

    def get(self, wanted: int) -> int | None:
        """Find the version of a key that is near."""
        # In the plan, shards are ordered by length: at the end of a block, the one before it is listed, too.
        found = self._newest.get(wanted)
        return self._before.get(wanted) if found is None else found

    def move_on(self, wanted: int) -> None:
        """Take the next block instead of the one before, if it has a key that was planned and is not near."""
        self._tries_in -= 1
        if self._tries_in > 0 or self._next == self._hashes.num_blocks:
            return
        keys, versions = self._hashes.block(self._next).T.tolist()
        block = dict(zip(keys, versions, strict=True))
        if wanted in block:
            self._newest, self._before = block, self._newest
            self._next += 1
            self._tries_in, self._pause = 0, 1
        else:  # a source in another order: to try for every recording would read the plan as often
            self._pause = min(2 * self._pause, len(block))
            self._tries_in = self._pause


def _one_row_per_key(rows: Numbers) -> Numbers:
    """Keep one row of a recording that is several clips, or was planned again; if not as the same, that is noted."""
    is_again = rows[1:, 0] == rows[:-1, 0]
    firsts = np.flatnonzero(np.append(True, ~is_again)[: len(rows)])
    differing = 1 + np.flatnonzero(is_again & (rows[1:, 1] != rows[:-1, 1]))
    found = rows[firsts]
    found[np.searchsorted(firsts, differing) - 1, 1] = _SEVERAL
    return found


def _place_of(wanted: int, rows: bytes) -> int:
    """Find the row that begins with a number, or -1; what looks like it across two numbers is none."""
    number = wanted.to_bytes(8, sys.byteorder, signed=True)
    place = rows.find(number)
    while place > 0 and place % _ROW_BYTES:
        place = rows.find(number, place + 1)
    return place


def version_hash(key: str, size_bytes: int, mtime_ns: int) -> int:
    """Give the second hash of a recording."""
    # Another form of the key: its own hash says nothing that is not known already.
    return hash((f"{key}\0", size_bytes, mtime_ns))
