"""Decode m4a, aac, mp4, webm and other containers with PyAV (the extra `solfa[av]`).

Containers round their time stamps (webm to a millisecond) and announce durations that differ from what is decoded, so
a file is decoded once to learn where each frame begins; after that, a span starts at a frame whose position is known.
Spans equal the whole file to the last bit, except that AAC may replace noise with generated noise (perceptual noise
substitution), which then depends on where decoding started; the same span always gives the same samples.
"""

import bisect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from solfa.audio.decoders.byte_range import ByteRange
from solfa.audio.recording import AudioInfo
from solfa.errors import AudioError

Samples = npt.NDArray[np.float32]

PREFIX = "AV/"
"""How `AudioInfo.format` begins for what is decoded here."""


@dataclass
class _Index:
    info: AudioInfo
    stamps: list[int] = field(default_factory=list)
    """Time stamps of the frames, each larger than all before it; frames with a smaller one are left out."""
    starts: list[int] = field(default_factory=list)
    """First sample of those frames."""


@contextmanager
def _open(file: ByteRange) -> Iterator[tuple[Any, Any]]:
    try:
        import av
    except ImportError:
        raise AudioError("needs PyAV to be decoded: pip install solfa[av]") from None
    try:
        file.seek(0)
        with av.open(file, **_lenient(av.__version__)) as container:
            if not container.streams.audio:
                raise AudioError("holds no audio stream")
            yield container, container.streams.audio[0]
    except (av.FFmpegError, ValueError) as error:
        raise AudioError(f"cannot be decoded: {file.fault or getattr(error, 'strerror', None) or error}") from None


def _lenient(version: str) -> dict[str, Any]:
    """Let tags that are not UTF-8 pass: they say nothing of the sound. From 19 on PyAV does so, and has no option."""
    return {} if int(version.partition(".")[0]) >= 19 else {"metadata_errors": "replace"}


def _samples(frame: Any) -> Samples:
    """Take a decoded frame as float32 `[N, C]`."""
    array = frame.to_ndarray()
    if not frame.format.is_planar:
        array = array.reshape(-1, frame.layout.nb_channels).T
    if array.dtype == np.uint8:
        array = (array.astype(np.float32) - 128) / 128
    elif array.dtype.kind == "i":
        array = array.astype(np.float32) / float(2 ** (8 * array.dtype.itemsize - 1))
    return np.ascontiguousarray(array.T, dtype=np.float32)


def measure(file: ByteRange) -> AudioInfo:
    """Find rate, channels and the exact number of samples, by decoding the file once."""
    return _index(file).info


def _index(file: ByteRange) -> _Index:
    return _index_of(_Identity(file, (*file.source.identity, file.offset, file.size)))


class _Identity:
    """An open file that compares equal to the same file opened again, so its index is built once per process."""

    def __init__(self, file: ByteRange, identity: tuple[object, ...]) -> None:
        self.file: ByteRange | None = file
        self.identity = identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.identity == self.identity


@lru_cache(maxsize=16)
def _index_of(identity: _Identity) -> _Index:
    assert identity.file is not None
    with _open(identity.file) as (container, stream):
        index = _Index(AudioInfo(stream.rate, stream.channels, 0, PREFIX + stream.codec_context.name))
        num_samples = 0
        for frame in container.decode(stream):
            if (frame.sample_rate, frame.layout.nb_channels) != index.info[:2]:
                raise AudioError("changes its sample rate or channels partway through; convert it first")
            if frame.pts is not None and (not index.stamps or frame.pts > index.stamps[-1]):
                index.stamps.append(frame.pts)
                index.starts.append(num_samples)
            num_samples += frame.samples
    identity.file = None
    index.info = index.info._replace(num_samples=num_samples)
    return index


def decode(file: ByteRange, info: AudioInfo, start: int, stop: int) -> Samples:
    """Decode samples `start` to `stop` as `[N, C]`; fewer come back where the file ends early."""
    index = _index(file)
    # One second before the span: enough for every codec's overlap and filters to settle.
    entry = max(0, bisect.bisect_right(index.starts, max(0, start - info.sample_rate)) - 1)
    with _open(file) as (container, stream):
        parts = _decode_from(container, stream, index, entry, start, stop)
    if parts is None:
        # The container cannot seek to a known frame (raw AAC has no time stamps): decode from the start.
        with _open(file) as (container, stream):
            parts = _decode_from(container, stream, index, 0, start, stop)
    return np.concatenate(parts) if parts else np.zeros((0, info.num_channels), np.float32)


def _decode_from(container: Any, stream: Any, index: _Index, entry: int, start: int, stop: int) -> list[Samples] | None:
    position = 0 if entry == 0 else None
    if entry:
        container.seek(index.stamps[entry], stream=stream)
    places = dict(zip(index.stamps, index.starts, strict=True)) if entry else {}
    parts: list[Samples] = []
    for frame in container.decode(stream):
        if position is None:
            position = places.get(frame.pts)
            if position is None or position > start:
                return None
        if position + frame.samples > start:
            parts.append(_samples(frame)[max(0, start - position) : stop - position])
        position += frame.samples
        if position >= stop:
            break
    return parts
