"""Find the recording that an imported clip was made from, by the names that older layouts record."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import PurePosixPath

from solfa.audio.recording import Recording
from solfa.encoding.clip_plan import unprobed_clip
from solfa.store.shard_writer import Outcome


def _without_suffix(name: str) -> str:
    return str(PurePosixPath(name).with_suffix("")) if PurePosixPath(name).name else name


def _below_first(name: str) -> str:
    return name.partition("/")[2] or name


_NAMES: tuple[Callable[[Recording], str], ...] = (
    lambda recording: recording.key,
    lambda recording: recording.uri,
    lambda recording: _below_first(recording.key),
    lambda recording: _without_suffix(recording.key),
    lambda recording: _without_suffix(_below_first(recording.key)),
    lambda recording: PurePosixPath(recording.key).name,
    lambda recording: PurePosixPath(recording.key).stem,
)
"""What a recording may be called, most reliable first. A dataset config puts its collection's id before each key."""


class RecordingIndex:
    """The recordings of a source by every name they may have."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._tiers: tuple[dict[str, Recording | None], ...] = tuple({} for _ in _NAMES)
        for recording in recordings:
            for tier, name_of in zip(self._tiers, _NAMES, strict=True):
                name = name_of(recording)
                # A name shared by two recordings finds neither.
                tier[name] = None if name in tier else recording

    def find(self, key: str) -> Recording | None:
        """Find the one recording with that name."""
        return next((found for tier in self._tiers if (found := tier.get(key)) is not None), None)


def attach(outcome: Outcome, recording: Recording) -> Outcome:
    """Give a clip the key, place and metadata of its recording; what the old layout said about it wins."""
    clip = outcome.clip
    known = replace(
        unprobed_clip(recording),
        id=recording.key + clip.id.removeprefix(clip.key),
        num_samples=clip.num_samples,
        caption=recording.caption if clip.caption is None else clip.caption,
        metadata={**recording.metadata, **clip.metadata},
    )
    return replace(outcome, clip=known)
