"""A recording fails once, however many clips it was cut into."""

from solfa.store.failed_recordings import counted, failed_recordings
from solfa.store.shard_reader import FailedClip

LONG = [FailedClip(f"long.ogg@{start:09.3f}", f"reason {start}", "a.tar", "long.ogg") for start in (60.0, 0.0, 30.0)]
SHORT = FailedClip("short.wav", "empty", "a.tar", "short.wav")


def test_clips_of_a_recording_are_one_failure_with_the_reason_of_the_first():
    found = failed_recordings([LONG[0], SHORT, *LONG[1:]])
    assert [(failed.key, failed.num_clips, failed.error) for failed in found] == [
        ("long.ogg", 3, "reason 0.0"),
        ("short.wav", 1, "empty"),
    ]
    assert [failed.name for failed in found] == ["long.ogg (3 clips)", "short.wav"]


def test_counts_name_the_clips_only_if_there_are_more_of_them():
    assert counted([]) == "0"
    assert counted([SHORT]) == "1 recording"
    assert counted([SHORT, *LONG]) == "2 recordings (4 clips)"
