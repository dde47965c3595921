"""Decide, purely, what will be encoded: which samples of which recording, in which shard, in which batch.

    recording ──segments──► clips ──shard_bounds──► shards ──batch_bounds──► batches

Nothing here opens a file or knows how many processes will do the work.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from solfa.audio.recording import AudioInfo, Recording
from solfa.audio.resampler import resampled_span
from solfa.store.planned_clip import PlannedClip

SHARDS_WANTED, USUAL_SHARD_SECONDS, MAX_SHARD_SECONDS = 64, 120.0, 36_000.0
MAX_SHARD_BYTES = 192 << 20
"""A part is cut into about 64 shards: little is lost if a process is killed, and many processes find work. Shards hold
at least two minutes of audio, so that small collections do not become many files, and at most ten hours."""
FEW_SHARDS, MIN_SHARD_SECONDS, MIN_SHARED_SECONDS = 8, 15.0, 60.0
"""What is shorter than 16 minutes is cut into 8, of at least 15 s: two encoders are through with it in about half the
time of one, and clips of 10 s still share batches from five minutes on. Less than a minute is one shard. The number of
encoders is not known here, and must not be, or the same command would make another dataset on another machine."""

MAX_BATCH_CLIPS = 64


def segment_bounds(num_samples: int, sample_rate: int, segment_seconds: float) -> list[tuple[int, int]]:
    """Cut a recording into consecutive segments that cover all of it; 0 seconds keeps it in one piece."""
    step = round(segment_seconds * sample_rate)
    if segment_seconds == 0 or step >= num_samples:
        return [(0, num_samples)]
    step = max(1, step)
    return [(start, min(start + step, num_samples)) for start in range(0, num_samples, step)]


def clip_id(key: str, start: int, stop: int, info: AudioInfo) -> str:
    """Name a clip after its recording, plus its start if it is only a part of it."""
    if (start, stop) == (0, info.num_samples):
        return key
    return f"{key}@{start / info.sample_rate:09.3f}"


def unprobed_clip(recording: Recording) -> PlannedClip:
    """Plan a clip with what a source says of its recording; what the audio is, is not known yet."""
    return PlannedClip(
        id=recording.key,
        key=recording.key,
        uri=recording.uri,
        size_bytes=recording.size_bytes,
        mtime_ns=recording.mtime_ns,
        member=recording.member,
        member_offset=recording.member_offset,
        member_size=recording.member_size,
        caption=recording.caption,
        metadata=recording.metadata,
    )


def clips_of(
    recording: Recording,
    info: AudioInfo | str,
    segment_seconds: float,
    sample_rate: int,
    spans: Sequence[tuple[int, int]] | None = None,
) -> Iterator[PlannedClip]:
    """Plan the clips of one recording, or of some spans of it, at its own rate.

    If `info` is the reason why it cannot be read, that is one failed clip.
    """
    known = unprobed_clip(recording)
    if isinstance(info, str):
        yield replace(known, error=info)
        return
    bounds = (
        (begin + start, begin + stop)
        for begin, end in ([(0, info.num_samples)] if spans is None else spans)
        for start, stop in segment_bounds(end - begin, info.sample_rate, segment_seconds)
    )
    for start, stop in bounds:
        first, last = resampled_span(start, stop, info.sample_rate, sample_rate)
        yield replace(
            known,
            id=clip_id(recording.key, start, stop, info),
            start=start,
            stop=stop,
            num_samples=last - first,
            source_sample_rate=info.sample_rate,
            source_num_channels=info.num_channels,
            source_num_samples=info.num_samples,
            source_format=info.format,
        )


def shard_seconds(total_seconds: float) -> float:
    """Choose how much audio the shards of a part hold, from how much there is in all."""
    if total_seconds < MIN_SHARED_SECONDS:
        return USUAL_SHARD_SECONDS
    least = min(max(total_seconds / FEW_SHARDS, MIN_SHARD_SECONDS), USUAL_SHARD_SECONDS)
    return min(max(total_seconds / SHARDS_WANTED, least), MAX_SHARD_SECONDS)


def shard_bounds(seconds: npt.NDArray[np.float64], bytes_per_second: float) -> list[tuple[int, int]]:
    """Cut the clips of a part into shards of consecutive clips with similar amounts of audio."""
    if not len(seconds):
        return []
    total = float(seconds.sum())
    wanted = min(shard_seconds(total), MAX_SHARD_BYTES / bytes_per_second)
    # A clip belongs to the shard in which it begins.
    begins = np.concatenate([[0.0], np.cumsum(seconds)[:-1]])
    first = np.flatnonzero(np.diff(np.floor(begins / wanted), prepend=-1.0))
    return list(zip(first.tolist(), [*first[1:].tolist(), len(seconds)], strict=True))


def batch_bounds(
    clips: Sequence[PlannedClip], batch_seconds: float, sample_rate: int, *, any_lengths: bool = False
) -> list[tuple[int, int]]:
    """Group consecutive clips of exactly equal length, up to `batch_seconds` or 64; a failed clip is on its own.

    Clips of `any_lengths` are grouped for codecs that do not care which clips are beside each other.
    """
    bounds: list[tuple[int, int]] = []
    num_samples = 0
    for index, clip in enumerate(clips):
        if bounds:
            start, stop = bounds[-1]
            together = num_samples + clip.num_samples
            fits = stop - start < MAX_BATCH_CLIPS and together <= batch_seconds * sample_rate
            is_alike = any_lengths or clips[start].num_samples == clip.num_samples
            if fits and is_alike and not clip.error and not clips[start].error:
                bounds[-1], num_samples = (start, index + 1), together
                continue
        bounds.append((index, index + 1))
        num_samples = clip.num_samples
    return bounds
