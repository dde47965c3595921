"""Read the plainest of WAV files without libsndfile: 16-bit integers or 32-bit floats, all of the file, nothing odd.

Collections of short clips are mostly such files, and to open one costs more than its samples do: libsndfile asks Python
for every few bytes of the header. Whatever is not exactly as below, or contradicts itself, is left to libsndfile, so
nothing here has to be forgiving:

    RIFF, the size of the file, WAVE │ fmt │ (fact, PEAK, LIST INFO) │ data, until the end of the file

The numbers are those of libsndfile: v / 2^15, which float32 holds exactly, or the floats as they are.
"""

import struct
from typing import NamedTuple

import numpy as np

from solfa.audio.decoders.byte_range import ByteRange
from solfa.audio.recording import AudioInfo

_HEAD_BYTES = 4096
"""Read at once: any header of this kind, and often all of a short clip."""
_PCM_16, _FLOAT_32 = (1, 16), (3, 32)
_FORMATS = {_PCM_16: "WAV/PCM_16", _FLOAT_32: "WAV/FLOAT"}
_IGNORED = {b"fact": b"", b"PEAK": b"", b"LIST": b"INFO"}
"""Chunks that say nothing about the samples, and how they begin."""


class _Layout(NamedTuple):
    info: AudioInfo
    head: bytes
    position: int
    """Where the samples begin."""
    sample_bytes: int


def measure(file: ByteRange) -> AudioInfo | None:
    """Read the header of a plain WAV; None if it is anything else."""
    layout = _read_layout(file)
    return None if layout is None else layout.info


def decode(
    file: ByteRange, info: AudioInfo, start: int, stop: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]] | None:
    """Decode samples `start` to `stop` of a plain WAV as `[N, C]`; None if it is anything else, or has changed."""
    if info.format not in _FORMATS.values():
        return None
    layout = _read_layout(file)
    if layout is None or layout.info != info:
        return None
    block_bytes = info.num_channels * layout.sample_bytes
    low, high = layout.position + start * block_bytes, layout.position + stop * block_bytes
    data = layout.head[low:high] if high <= len(layout.head) else file.bytes_at(low, high - low)
    if len(data) < high - low:
        return None
    stored = np.frombuffer(data, "<i2" if layout.sample_bytes == 2 else "<f4").reshape(-1, info.num_channels)
    return stored * np.float32(2**-15) if layout.sample_bytes == 2 else stored.astype(np.float32)


def _read_layout(file: ByteRange) -> _Layout | None:
    head = file.bytes_at(0, _HEAD_BYTES)
    if len(head) < 44 or head[:4] != b"RIFF" or head[8:16] != b"WAVEfmt ":
        return None
    riff_bytes, fmt_bytes = int.from_bytes(head[4:8], "little"), int.from_bytes(head[16:20], "little")
    tag, num_channels, sample_rate, byte_rate, block_bytes, bits = struct.unpack_from("<HHIIHH", head, 20)
    name = _FORMATS.get((tag, bits))
    # A format chunk of 18 bytes says that nothing more follows; the extensible one has 40.
    is_plain = fmt_bytes == 16 or (fmt_bytes == 18 and head[36:38] == b"\0\0")
    if name is None or not is_plain or riff_bytes + 8 != file.size or not num_channels or not sample_rate:
        return None
    if block_bytes != num_channels * bits // 8 or byte_rate != sample_rate * block_bytes:
        return None
    position = 20 + fmt_bytes
    while position + 8 <= len(head):
        chunk, num_bytes = head[position : position + 4], int.from_bytes(head[position + 4 : position + 8], "little")
        position += 8
        if chunk == b"data":
            is_whole = position + num_bytes == file.size and num_bytes and num_bytes % block_bytes == 0
            info = AudioInfo(sample_rate, num_channels, num_bytes // block_bytes, name)
            return _Layout(info, head, position, bits // 8) if is_whole else None
        if chunk not in _IGNORED or not head[position:].startswith(_IGNORED[chunk]) or num_bytes % 2:
            return None
        position += num_bytes
    return None
