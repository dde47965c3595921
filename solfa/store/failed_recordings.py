"""Failed clips by recording: one that cannot be read is one failure, however many clips it was cut into."""

from collections.abc import Iterable
from typing import NamedTuple

from solfa.spelling import plural
from solfa.store.shard_reader import FailedClip


class FailedRecording(NamedTuple):
    """A recording that could not be encoded, or not all of it."""

    key: str
    num_clips: int
    """How many of its clips failed."""
    error: str
    """Why the first of them did."""

    @property
    def name(self) -> str:
        """Its key, and how many clips that concerns if they are several."""
        return self.key if self.num_clips == 1 else f"{self.key} ({plural(self.num_clips, 'clip')})"


def failed_recordings(failures: Iterable[FailedClip]) -> list[FailedRecording]:
    """Gather failed clips by recording, in the order in which the recordings first occur."""
    clips: dict[str, list[FailedClip]] = {}
    for failed in failures:
        clips.setdefault(failed.key, []).append(failed)
    return [FailedRecording(key, len(found), min(found).error) for key, found in clips.items()]


def counted(failures: Iterable[FailedClip]) -> str:
    """Write how many failed: `2 recordings`, or `1 recording (120 clips)` if that is not the same number."""
    found = failed_recordings(failures)
    num_clips = sum(recording.num_clips for recording in found)
    several = f" ({plural(num_clips, 'clip')})" if num_clips > len(found) else ""
    return f"{plural(len(found), 'recording')}{several}" if found else "0"
