"""What became of recordings since they were planned is told by their sizes and times."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from solfa.encoding.recording_versions import (
    Differences,
    PlannedRecordings,
    compare_recordings,
    has_changed,
    planned_versions,
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
    expected, found = planned_versions(tmp_path), PlannedRecordings.read(tmp_path)
    assert len(expected) == len(keys) + 1
    assert {key: found.get(key) for key in expected} == expected
    assert [found.get(key) for key in ("b.wav", "a.wa", "a.wav ", "folder/300.wav")] == [None] * 4


def test_hashes_that_are_equal_are_told_apart_by_the_keys() -> None:
    class Key(str):
        def __hash__(self) -> int:
            return 5

        __eq__ = str.__eq__

    keys = pa.array(["a", "b", "a"], pa.large_string())
    numbers = np.array([[5, 5, 5], [1, 2, 3], [4, 5, 6]])
    found = PlannedRecordings(keys, *numbers)
    assert [found.get(Key(name)) for name in "abc"] == [(3, 6), (2, 5), None]


def test_without_a_plan_nothing_is_found(tmp_path: Path) -> None:
    assert PlannedRecordings.read(tmp_path).get("a.wav") is None
