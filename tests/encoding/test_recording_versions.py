"""What became of recordings since they were planned is told by their sizes and times."""

from solfa.encoding.recording_versions import Differences, compare_recordings, has_changed


def test_recordings_are_compared_by_key_size_and_time() -> None:
    planned = {"same": (1, 1), "gone": (1, 1), "resized": (1, 1), "touched": (1, 1), "imported": (0, 0)}
    listed = {"same": (1, 1), "resized": (2, 1), "touched": (1, 2), "imported": (9, 9), "new": (1, 1)}
    assert compare_recordings(listed, planned) == Differences(["new"], ["gone"], ["resized"], ["touched"])


def test_what_is_not_known_has_not_changed() -> None:
    assert has_changed((1, 1), (1, 2)) and has_changed((1, 1), (2, 1))
    assert not has_changed((1, 1), (1, 1)) and not has_changed((0, 0), (5, 5))
