"""Find the recording that an imported clip was made from, by the names that older layouts record."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import PurePosixPath

from solfa.audio.recording import AudioInfo, Recording
from solfa.audio.resampler import resampled_span
from solfa.encoding.clip_plan import clip_id, unprobed_clip
from solfa.encoding.coverage import WHOLE, Span, told_span
from solfa.store.schema import ArraySpec
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


def attach(outcome: Outcome, recording: Recording, info: AudioInfo | str, spec: ArraySpec) -> Outcome:
    """Give a clip the key, place and metadata of its recording; what the old layout said about it wins.

    `info` is the reason if the recording cannot be read; its place in the recording is not known then, and neither if
    its length does not fit there.
    """
    clip = outcome.clip
    known = replace(
        unprobed_clip(recording),
        id=recording.key + clip.id.removeprefix(clip.key),
        num_samples=clip.num_samples,
        caption=recording.caption if clip.caption is None else clip.caption,
        metadata={**recording.metadata, **clip.metadata},
    )
    place = None if isinstance(info, str) else place_in(info, told_span(clip.metadata), outcome.num_samples, spec)
    if isinstance(info, str) or place is None:
        return replace(outcome, clip=known)
    start, stop = place
    num_samples = _exact(outcome.num_samples, start, stop, info, spec)
    placed = replace(
        known,
        id=clip_id(recording.key, start, stop, info),
        start=start,
        stop=stop,
        num_samples=num_samples,
        source_sample_rate=info.sample_rate,
        source_num_channels=info.num_channels,
        source_num_samples=info.num_samples,
        source_format=info.format,
    )
    return replace(outcome, clip=placed, num_samples=num_samples)


def place_in(info: AudioInfo, told: Span | None, num_samples: int, spec: ArraySpec) -> tuple[int, int] | None:
    """Find the samples of a recording that a clip of `num_samples` is, at its own rate.

    Where nothing is told, a clip is the whole recording or has no place. None also means that the length is another.
    """
    first, last = WHOLE if told is None else told
    start, stop = round(first * info.num_samples), round(last * info.num_samples)
    expected = _length(start, stop, info, spec)
    # The last frame may be cut short, and resamplers round differently.
    tolerance = max(2 * spec.hop_length, spec.sample_rate // 100)
    is_failed = num_samples == 0 and told is not None
    return (start, stop) if stop > start and (is_failed or abs(num_samples - expected) < tolerance) else None


def _exact(num_samples: int, start: int, stop: int, info: AudioInfo, spec: ArraySpec) -> int:
    """Take the length of the place, unless it takes more or fewer frames than the array has."""
    expected = _length(start, stop, info, spec)
    frames = -(-num_samples // spec.hop_length)
    return expected if -(-expected // spec.hop_length) == frames else num_samples


def _length(start: int, stop: int, info: AudioInfo, spec: ArraySpec) -> int:
    first, last = resampled_span(start, stop, info.sample_rate, spec.sample_rate)
    return last - first
