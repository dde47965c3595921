"""Read the length that WAV and AIFF headers promise, which libsndfile quietly ignores if less is there.

libsndfile shortens the length to the bytes that exist, so a download cut in half looks like a shorter song.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from solfa.audio.decoders.byte_range import ByteRange

_UNKNOWN_BYTES = 0x7FFF0000
"""Programs that write to a pipe announce sizes from here up (ffmpeg 0xFFFFFFFF, sox 0x7FFFF000): they mean nothing."""


class Chunk(NamedTuple):
    """A chunk's name, where its content starts, and the length it announces."""

    name: bytes
    position: int
    num_bytes: int


def _chunks(file: ByteRange, byte_order: str) -> Iterator[Chunk]:
    position = 12
    while len(head := file.bytes_at(position, 8)) == 8:
        name, num_bytes = struct.unpack(f"{byte_order}4sI", head)
        yield Chunk(name, position + 8, num_bytes)
        position += 8 + num_bytes + num_bytes % 2


def promised_samples(file: ByteRange) -> int | None:
    """Compute how many samples the header of a WAV or AIFF file promises; None if it makes no such promise."""
    head = file.bytes_at(0, 12)
    if head[:4] in (b"RIFF", b"RF64") and head[8:] == b"WAVE":
        return _promised_by_wav(file)
    if head[:4] == b"FORM" and head[8:] in (b"AIFF", b"AIFC"):
        return _promised_by_aiff(file)
    return None


def _promised_by_wav(file: ByteRange) -> int | None:
    block_bytes = large_bytes = 0
    for chunk in _chunks(file, "<"):
        if chunk.name == b"fmt ":
            content = file.bytes_at(chunk.position, 16)
            if len(content) == 16:
                _, num_channels, _, _, block_bytes, bits = struct.unpack("<HHIIHH", content)
                # Compressed formats (ADPCM, GSM) hold more than one sample per block: no length that we can compute.
                block_bytes = block_bytes if block_bytes == num_channels * ((bits + 7) // 8) else 0
        elif chunk.name == b"ds64":
            # The sizes of an RF64 file, which 32 bits cannot count; zeros if its writer died.
            large_bytes = int.from_bytes(file.bytes_at(chunk.position + 8, 8), "little")
        elif chunk.name == b"data" and large_bytes:
            return large_bytes // block_bytes if block_bytes else None
        elif chunk.name == b"data":
            return chunk.num_bytes // block_bytes if block_bytes and chunk.num_bytes < _UNKNOWN_BYTES else None
    return None


def _promised_by_aiff(file: ByteRange) -> int | None:
    for chunk in _chunks(file, ">"):
        if chunk.name == b"COMM" and len(content := file.bytes_at(chunk.position, 6)) == 6:
            return int.from_bytes(content[2:6], "big")
    return None


def finish_wav(file: ByteRange) -> ByteRange:
    """Fill in the sizes of a WAV whose writer died before it could (both are 0)."""
    head = file.bytes_at(0, 12)
    if head != b"RIFF\0\0\0\0WAVE":
        return file
    for chunk in _chunks(file, "<"):
        if chunk.name == b"data" and chunk.num_bytes == 0 and chunk.position < file.size:
            size = min(file.size - chunk.position, 0xFFFFFFFF)
            return file.view(chunk.position, file.size, file.bytes_at(0, chunk.position - 4) + struct.pack("<I", size))
    return file
