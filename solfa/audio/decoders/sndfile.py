"""Decode with libsndfile: exact lengths, and seeks that give the same samples as decoding from the start.

Measured with libsndfile 1.2.2, spans compared with the whole file: WAV, AIFF, FLAC and Vorbis are bit-equal, Opus is
bit-equal after a pre-roll, and mp3 is within 9e-8 (its synthesis filter rounds differently depending on where it was
started). soundfile seeks after every read, so reading small blocks means many seeks: a span is read in one call.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile

from solfa.audio.decoders import chunk_lists, mpeg, ogg
from solfa.audio.decoders.byte_range import ByteRange
from solfa.audio.recording import AudioInfo
from solfa.errors import AudioError

Samples = npt.NDArray[np.float32]

_BUFFER_BYTES = 1 << 16
_LARGEST_BLOCK = 8192
"""Samples of the longest Vorbis block; Opus and FLAC need less."""
_OPUS_RATE = 48000
_MPEG_PREROLL = 128 * 576
"""At the lowest bit rates a frame borrows bits from up to 85 frames before it; without them it decodes to noise."""
_UNKNOWN_SAMPLES = 2**62
"""libsndfile reports a length near 2^63 if a FLAC header does not give one."""

_PLAUSIBLE_SAMPLES_PER_BYTE = 16
"""Up to here a length is believed; silence may be denser, but then its end must be there."""
_MOST_CUT_OFF = 4
"""A file that promises more than this many times what is there was not cut off: its header is wrong."""


@contextmanager
def _open(file: ByteRange) -> Iterator[Any]:
    try:
        with soundfile.SoundFile(io.BufferedReader(file, _BUFFER_BYTES)) as sound:
            yield sound
    except (soundfile.SoundFileError, TypeError) as error:
        # TypeError: soundfile takes the file for headerless PCM, and would have to be told its rate.
        reason = (getattr(error, "error_string", None) or str(error)).removeprefix("Error : ").rstrip(".")
        raise AudioError(f"cannot be decoded: {file.fault or reason}") from None


def measure(file: ByteRange) -> AudioInfo:
    """Find rate, channels and the exact number of samples that `decode` can deliver."""
    if file.bytes_at(0, 4) == ogg.MAGIC:
        return _measure_chain(file)
    prepared = _prepare(file, None)
    with _open(prepared) as sound:
        info = _info(sound, file.size)
        if prepared.prefix and info.format.startswith("MP3"):
            # In a damaged stream our frame count and the decoder's may differ: what the decoder delivers counts.
            info = info._replace(num_samples=_deliverable(sound, info.num_samples))
    promised = chunk_lists.promised_samples(file)
    if promised is None or promised <= info.num_samples:
        return info
    if promised > _MOST_CUT_OFF * info.num_samples:
        raise AudioError(f"its header claims {promised:,} samples, but {info.num_samples:,} are there")
    return info._replace(num_samples=promised)


def _info(sound: Any, num_bytes: int) -> AudioInfo:
    if sound.frames >= _UNKNOWN_SAMPLES:
        raise AudioError("its header does not say how long it is (an unfinished stream); encode it again")
    if sound.frames > _PLAUSIBLE_SAMPLES_PER_BYTE * num_bytes and not _has_end(sound):
        raise AudioError(f"its header claims {sound.frames:,} samples, but it ends before the last of them")
    return AudioInfo(sound.samplerate, sound.channels, sound.frames, f"{sound.format}/{sound.subtype}")


def _has_end(sound: Any) -> bool:
    try:
        sound.seek(max(0, sound.frames - _LARGEST_BLOCK))
        return len(sound.read(_LARGEST_BLOCK, dtype="float32")) > 0
    except soundfile.SoundFileError:
        return False


def _deliverable(sound: Any, claimed: int) -> int:
    start = max(0, claimed - 2 * _MPEG_PREROLL)
    sound.seek(start)
    return start + len(sound.read(claimed - start, dtype="float32", always_2d=True))


def _measure_chain(file: ByteRange) -> AudioInfo:
    total: AudioInfo | None = None
    for link in ogg.find_links(file):
        with _open(file.view(*link)) as sound:
            info = _info(sound, link.stop - link.start)
        if total is None:
            total = info
        elif total[:2] != info[:2]:
            raise AudioError(
                f"is a chain of streams that differ: {total.sample_rate} Hz x {total.num_channels}, "
                f"then {info.sample_rate} Hz x {info.num_channels}; split it"
            )
        else:
            total = total._replace(num_samples=total.num_samples + info.num_samples)
    assert total is not None
    return total


def _prepare(file: ByteRange, num_samples: int | None) -> ByteRange:
    """Prepend a correct header to a stream that has none; given `num_samples`, nothing is counted again."""
    finished = chunk_lists.finish_wav(file)
    if finished is not file or file.bytes_at(0, 4) in (b"RIFF", b"RF64", b"FORM", b"fLaC", ogg.MAGIC):
        return finished
    start = mpeg.first_frame(file)
    if start is None or mpeg.has_complete_header(file, start):
        return file
    start = mpeg.after_header(file, start)
    header = file.bytes_at(start, 4)
    num_frames = mpeg.count_frames(file, start) if num_samples is None else mpeg.frames_of(num_samples, header)
    return file.view(start, file.size, mpeg.xing_frame(header, num_frames, file.size - start))


def decode(file: ByteRange, info: AudioInfo, start: int, stop: int) -> Samples:
    """Decode samples `start` to `stop` as `[N, C]`; fewer come back where the file ends early."""
    if not info.format.startswith("OGG"):
        preroll = _MPEG_PREROLL if info.format.startswith("MP3") else 0
        with _open(_prepare(file, info.num_samples)) as sound:
            return _read(sound, start, stop, start - preroll)
    parts: list[Samples] = []
    link_start = 0
    for link in ogg.find_links(file):
        part = file.view(*link)
        with _open(part) as sound:
            low, high = max(start, link_start) - link_start, min(stop - link_start, sound.frames)
            if low < high:
                parts.append(_read(sound, low, high, min(low - _preroll(info), _last_safe_seek(sound, part))))
            link_start += sound.frames
        if link_start >= stop:
            break
    return np.concatenate(parts) if parts else np.zeros((0, info.num_channels), np.float32)


def _preroll(info: AudioInfo) -> int:
    # An Opus decoder's filters forget their past only gradually: bit-equal after 50 ms in every trial, 1 s is safe.
    return info.sample_rate if info.format == "OGG/OPUS" else _LARGEST_BLOCK


def _last_safe_seek(sound: Any, file: ByteRange) -> int:
    granules = ogg.last_page_granules(file)
    if granules is None:
        return 0
    rate = _OPUS_RATE if sound.subtype == "OPUS" else sound.samplerate
    return int(sound.frames - granules * sound.samplerate // rate - _LARGEST_BLOCK)


def _read(sound: Any, start: int, stop: int, seek: int) -> Samples:
    seek = min(max(0, seek), sound.frames)
    if seek:
        sound.seek(seek)
    samples: Samples = sound.read(min(stop, sound.frames) - seek, dtype="float32", always_2d=True)
    return samples[max(0, start - seek) :]
