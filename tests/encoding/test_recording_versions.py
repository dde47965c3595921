"""What became of recordings since they were planned is told by their sizes and times."""

import tracemalloc
from array import array
from pathlib import Path

import pyarrow as pa

from solfa.encoding.recording_versions import (
    Differences,
    Known,
    PlannedRecordings,
    compare_recordings,
    has_changed,
    planned_versions,
    versions_of,
)
from solfa.store.plan_file import PLAN_SCHEMA, write_plan_part
from solfa.store.planned_clip import PlannedClip


def test_recordings_are_compared_by_key_size_and_time() -> None:
    planned = {"same": (1, 1), "gone": (1, 1), "resized": (1, 1), "touched": (1, 1), "imported": (0, 0)}
    listed = {"same": (1, 1), "resized": (2, 1), "touched": (1, 2), "imported": (9, 9), "new": (1, 1)}
    assert compare_recordings(listed, planned) == Differences(["new"], ["gone"], ["resized"], ["touched"])


def test_what_is_not_known_has_not_changed() -> None:
    assert has_changed((1, 1), (1, 2)) and has_changed((1, 1), (2, 1))
    assert not has_changed((1, 1), (1, 1)) and not has_changed((0, 0), (5, 5))


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
    expected, known = planned_versions(tmp_path), PlannedRecordings.read(tmp_path)
    assert len(expected) == len(keys) + 1
    assert versions_of(tmp_path, expected) == expected
    assert versions_of(tmp_path, ["a.wav", "b.wav"]) == {"a.wav": expected["a.wav"]}
    again = {*keys[::5]}  # whose older versions are in the plan as well
    for key, (size, time) in expected.items():
        assert known.find(key, (size, time)) is (Known.UNSURE if key in again else Known.AS_IT_IS)
        assert known.find(key, (size + 1, time)) is known.find(key, (size, time + 1)) is Known.UNSURE
    assert {known.find(key, (100, 2**62)) for key in ("b.wav", "a.wa", "a.wav ", "folder/300.wav")} == {Known.NO}


def test_what_was_imported_without_its_audio_is_known_as_it_is(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([PlannedClip("a", "a", "a.npy").as_row()], schema=PLAN_SCHEMA)
    assert write_plan_part(tmp_path, 0, iter([table]))
    assert PlannedRecordings.read(tmp_path).find("a", (5, 5)) is Known.AS_IT_IS


def test_keys_whose_hashes_are_equal_are_not_taken_for_each_other() -> None:
    class Key(str):
        def __hash__(self) -> int:
            return 5

        __eq__ = str.__eq__

    known = PlannedRecordings(array("q", [5]), array("q", [hash(("a\0", 1, 2))]))
    assert known.find(Key("a"), (1, 2)) is Known.AS_IT_IS
    assert known.find(Key("b"), (1, 2)) is Known.UNSURE  # and the plan is asked


def test_a_clip_of_the_plan_takes_sixteen_bytes(tmp_path: Path) -> None:
    rows = [PlannedClip(f"{number}", f"{number}", "a.wav", 1, number).as_row() for number in range(20_000)]
    table = pa.Table.from_pylist(rows, schema=PLAN_SCHEMA)
    assert write_plan_part(tmp_path, 0, iter(table[start : start + 500] for start in range(0, len(rows), 500)))
    del rows, table
    PlannedRecordings.read(tmp_path)  # what is imported and kept on the way
    tracemalloc.start()
    known = PlannedRecordings.read(tmp_path)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert known.find("7", (1, 7)) is Known.AS_IT_IS
    assert kept < 20_000 * 16 * 1.2 + 50_000  # arrays that grow have a little room
    assert peak < 20_000 * 32 * 1.2 + 500 * 1_000


def test_without_a_plan_nothing_is_found(tmp_path: Path) -> None:
    assert PlannedRecordings.read(tmp_path).find("a.wav", (1, 1)) is Known.NO
