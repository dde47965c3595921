"""Hashes are sorted as Python sorts them, however few are in memory at once."""

import tracemalloc
from array import array
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from solfa.files.sorted_hashes import HashSorter

HASHES = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -1, 0, 1, 2**56 - 1, 2**56, 2**63 - 1])


@given(rows=st.lists(st.tuples(HASHES, HASHES), max_size=50), per_block=st.integers(1, 60), at_once=st.integers(1, 7))
def test_rows_come_back_sorted_and_blocks_as_they_were_added(
    rows: list[tuple[int, int]], per_block: int, at_once: int
) -> None:
    with HashSorter(width=2, rows_per_block=per_block) as sorter:
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            sorter.add([row[0] for row in some], [row[1] for row in some])
        pieces = [piece.tolist() for piece in sorter.merged()]
        merged = [tuple(row) for piece in pieces for row in piece]
        assert [row[0] for row in merged] == sorted(row[0] for row in rows)
        assert sorted(merged) == sorted(rows) and sorter.num_rows == len(rows)
        sets = [{row[0] for row in piece} for piece in pieces]
        assert sum(map(len, sets)) == len(set().union(*sets))  # equal ones are in the same piece
        blocks = [sorter.block(index).tolist() for index in range(sorter.num_blocks)]
        ends = np.cumsum([len(block) for block in blocks]).tolist()
        assert all(len(block) < per_block + at_once for block in blocks)
        for block, end in zip(blocks, ends, strict=True):
            assert sorted(map(tuple, block)) == sorted(rows[end - len(block) : end])


@given(st.lists(st.integers(-3, 3) | HASHES, max_size=40), st.integers(1, 50))
def test_what_is_there_twice_is_found(hashes: list[int], per_block: int) -> None:
    with HashSorter(width=1, rows_per_block=per_block) as sorter:
        for number in hashes:
            sorter.add([number])
        assert sorter.repeated() == {number for number, count in Counter(hashes).items() if count > 1}


def test_memory_does_not_grow_with_the_rows() -> None:
    peaks, random = [], np.random.default_rng(0)
    for num_blocks in (1, 20, 80):
        tracemalloc.start()
        with HashSorter(width=2, rows_per_block=4_096) as sorter:
            for _ in range(num_blocks):
                sorter.add(*(array("q", random.bytes(8 * 4_096)) for _ in range(2)))
            assert sum(len(piece) for piece in sorter.merged()) == num_blocks * 4_096
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    more_rows = 60 * 4_096
    assert peaks[2] - peaks[1] < more_rows  # a byte a row, where 16 are put aside
