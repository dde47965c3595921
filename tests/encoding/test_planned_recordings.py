"""The recordings of a plan are found as a dictionary finds them, in any order, and without being kept."""

import tracemalloc
from array import array
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solfa.encoding import planned_recordings
from solfa.encoding.planned_recordings import Known, PlannedRecordings, version_hash
from solfa.encoding.recording_versions import UNKNOWN, Version, planned_versions, versions_of
from solfa.files.sorted_hashes import HashSorter
from solfa.store.plan_file import PLAN_SCHEMA, write_plan_part
from solfa.store.planned_clip import PlannedClip

Row = tuple[str, Version]
KEYS = st.sampled_from("abcdefgh")
VERSIONS = st.sampled_from([(1, 1), (1, 2), UNKNOWN])
ROWS = st.lists(st.tuples(KEYS, VERSIONS), max_size=30)


def of_rows(rows: Sequence[Row], rows_per_block: int) -> PlannedRecordings:
    hashes = HashSorter(2, rows_per_block)
    for key, version in rows:
        hashes.add([hash(key)], [version_hash(key, *version)])
    return PlannedRecordings(hashes)


def find_slowly(rows: Sequence[Row], key: str, version: Version) -> Known:
    """Go through the whole plan."""
    versions = {planned for name, planned in rows if name == key}
    if not versions:
        return Known.NO
    return Known.AS_IT_IS if versions in ({version}, {UNKNOWN}) else Known.UNSURE


@given(planned=ROWS, listed=ROWS, rows_per_block=st.integers(1, 12))
def test_whatever_is_listed_in_whatever_order_is_what_the_definition_says(
    planned: list[Row], listed: list[Row], rows_per_block: int
) -> None:
    with of_rows(planned, rows_per_block) as known:
        assert [known.find(*row) for row in listed] == [find_slowly(planned, *row) for row in listed]


@given(st.randoms(use_true_random=False), st.integers(1, 60), st.integers(1, 25))
def test_a_listing_that_follows_the_plan_and_leaves_it_is_what_the_definition_says(
    random: Random, num_rows: int, rows_per_block: int
) -> None:
    """In the order of the plan at first, then with some removed, changed, repeated, moved and new anywhere."""
    planned: list[Row] = [(f"{number}.wav", (number, 1)) for number in range(num_rows)]
    agreeing = random.randrange(num_rows + 1)
    rest = [row for row in planned[agreeing:] for _ in range(random.choice([0, 1, 1, 1, 2]))]
    rest = [(key, (size, random.choice([1, 1, 1, 2]))) for key, (size, _) in rest]
    for _ in range(random.randrange(4)):
        rest.insert(random.randrange(len(rest) + 1), (f"new {random.random()}", (1, 1)))
    if random.random() < 0.5:
        random.shuffle(rest)
    listed = planned[:agreeing] + rest
    if random.random() < 0.3:  # also one that was planned again as another, far from where it is listed
        planned.append((random.choice(planned)[0], (7, 7)))
    with of_rows(planned, rows_per_block) as known:
        assert [known.find(*row) for row in listed] == [find_slowly(planned, *row) for row in listed]


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The hashes that were not near the one before."""
    found: list[int] = []
    look_up = PlannedRecordings._look_up
    monkeypatch.setattr(PlannedRecordings, "_look_up", lambda self, key: found.append(key) or look_up(self, key))
    return found


@pytest.mark.parametrize("per_shard", [1, 30, 99])
def test_of_a_listing_that_follows_the_plan_one_in_a_block_is_looked_up(looked_up: list[int], per_shard: int) -> None:
    """Within its shards, a plan is ordered by length."""
    listed: list[Row] = [(f"{number}.wav", (number, 1)) for number in range(5_000)]
    shards = [listed[start : start + per_shard] for start in range(0, 5_000, per_shard)]
    with of_rows([row for shard in shards for row in reversed(shard)], rows_per_block=100) as known:
        assert {known.find(*row) for row in listed} == {Known.AS_IT_IS}
        assert len(looked_up) == 50
        assert known.num_near <= 2 * 100
        assert known.find("new.wav", (1, 1)) is Known.NO
        assert len(looked_up) == 51


def test_a_listing_in_another_order_does_not_read_the_plan_again_and_again(looked_up, monkeypatch) -> None:
    rows: list[Row] = [(f"{number}.wav", (number, 1)) for number in range(2_000)]
    blocks: list[int] = []
    block = HashSorter.block
    monkeypatch.setattr(HashSorter, "block", lambda self, index: blocks.append(index) or block(self, index))
    with of_rows(rows, rows_per_block=20) as known:
        assert {known.find(*row) for row in reversed(rows)} == {Known.AS_IT_IS}
    assert len(looked_up) > 1_900
    assert 20 * len(blocks) < 1.2 * 2_000  # not more than once, but for the first few tries


def test_a_listing_that_comes_back_to_the_order_of_the_plan_is_followed_again(looked_up: list[int]) -> None:
    """As where recordings of a later part are listed between those of the first."""
    rows: list[Row] = [(f"{number}.wav", (number, 1)) for number in range(5_000)]
    with of_rows(rows, rows_per_block=100) as known:
        assert {known.find(*row) for row in [*rows[:950], *rows[3_000:], *rows[950:3_000]]} == {Known.AS_IT_IS}
    assert len(looked_up) <= 2_000 + 100 + 30


def test_what_is_in_memory_does_not_grow_with_the_plan() -> None:
    peaks = []
    for num_rows in (1 << 17, 1 << 19):
        random = np.random.default_rng(0)
        with HashSorter(2, 4_096) as hashes:
            for _ in range(num_rows // 4_096):
                hashes.add(*(array("q", random.bytes(8 * 4_096)) for _ in range(2)))
            tracemalloc.start()
            with PlannedRecordings(hashes) as known:
                assert known.find("a", (1, 1)) is Known.NO
                peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] - peaks[0] < (1 << 19) - (1 << 17)  # a byte a row, where 16 are put aside


def test_planned_recordings_are_found_as_a_dictionary_finds_them(tmp_path: Path) -> None:
    """Also those that were planned again, those cut into several clips, and names in any letters."""
    keys = ["a.wav", "ä/日本.wav", "", *(f"folder/{number}.wav" for number in range(300))]
    for part, size in enumerate((100, 7)):
        chosen = keys if part == 0 else [*keys[::5], "only/here.wav"]
        rows = [
            PlannedClip(f"{key}@{start}", key, key, size_bytes=size + index, mtime_ns=2**62 + index).as_row()
            for index, key in enumerate(chosen)
            for start in range(1 + index % 3)
        ]
        table = pa.Table.from_pylist(rows, schema=PLAN_SCHEMA)
        assert write_plan_part(tmp_path, part, iter([table[:50], table[50:]]))
    expected = planned_versions(tmp_path)
    assert len(expected) == len(keys) + 1
    assert versions_of(tmp_path, expected) == expected
    assert versions_of(tmp_path, ["a.wav", "b.wav"]) == {"a.wav": expected["a.wav"]}
    again = {*keys[::5]}  # whose older versions are in the plan as well
    with PlannedRecordings.read(tmp_path, rows_per_block=64) as known:
        for key, (size, time) in expected.items():
            assert known.find(key, (size, time)) is (Known.UNSURE if key in again else Known.AS_IT_IS)
            assert known.find(key, (size + 1, time)) is known.find(key, (size, time + 1)) is Known.UNSURE
        assert {known.find(key, (100, 2**62)) for key in ("b.wav", "a.wa", "a.wav ", "folder/300.wav")} == {Known.NO}


def test_what_was_imported_without_its_audio_is_known_as_it_is(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([PlannedClip("a", "a", "a.npy").as_row()], schema=PLAN_SCHEMA)
    assert write_plan_part(tmp_path, 0, iter([table]))
    with PlannedRecordings.read(tmp_path) as known:
        assert known.find("a", (5, 5)) is Known.AS_IT_IS


def test_keys_whose_hashes_are_equal_are_not_taken_for_each_other() -> None:
    class Key(str):
        def __hash__(self) -> int:
            return 5

        __eq__ = str.__eq__

    with of_rows([(Key("a"), (1, 2))], rows_per_block=1) as known:
        assert known.find(Key("a"), (1, 2)) is Known.AS_IT_IS
        assert known.find(Key("b"), (1, 2)) is Known.UNSURE  # and the plan is asked
    with of_rows([(Key("a"), (1, 2)), (Key("b"), (1, 2))], rows_per_block=1) as known:
        assert known.find(Key("a"), (1, 2)) is known.find(Key("b"), (1, 2)) is Known.UNSURE


def test_a_number_across_two_others_is_not_found() -> None:
    rows = np.array([[1 << 32, 5 << 32], [7 << 32, 9]], np.int64).tobytes()
    across = int.from_bytes(rows[4:12], planned_recordings.sys.byteorder, signed=True)
    assert planned_recordings._place_of(across, rows) == planned_recordings._place_of(9, rows) == -1
    assert planned_recordings._place_of(7 << 32, rows) == 16
    assert planned_recordings._place_of(1 << 32, rows) == 0


def test_without_a_plan_nothing_is_found(tmp_path: Path) -> None:
    with PlannedRecordings.read(tmp_path) as known:
        assert known.find("a.wav", (1, 1)) is Known.NO
