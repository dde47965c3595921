"""Count the frames of an MPEG audio stream (mp3), to know exactly how long it is.

libsndfile believes the frame count of a Xing header. Without one, it guesses the length from the first frame's bit
rate and then refuses to read further: a variable-rate file of 20 s was cut to 7.7 s. So the frames of such a file are
counted here (headers only, nothing is decoded), and the decoder is given a Xing header with the right count.
Layout: ISO/IEC 11172-3, section 2.4.1.3. A Xing header is a frame without sound: `Xing`, flags, frames, bytes.
"""

import struct
from typing import NamedTuple

from solfa.audio.decoders.byte_range import ByteRange

_BITRATES_V1 = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_BITRATES_V2 = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_SAMPLE_RATES = (44100, 48000, 32000)
_VERSION_1 = 3
_LAYER_3 = 1
_TAGS = (b"Xing", b"Info")
_SEARCH_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 20
_DECODER_DELAY = 529
"""Samples that a decoder drops at the start once a Xing header tells it that the stream is complete."""
_TAG_BITRATE_INDEX = 9
"""128 or 80 kbit/s: the shortest frame (at 48 and 24 kHz) still has room for the tag."""


class Frame(NamedTuple):
    """What the four bytes of a layer III frame header say."""

    version: int
    sample_rate: int
    num_samples: int
    num_bytes: int
    side_bytes: int


def parse_frame(header: bytes) -> Frame | None:
    """Read a frame header; None if these bytes are not one of layer III."""
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE0 != 0xE0:
        return None
    version, layer = header[1] >> 3 & 3, header[1] >> 1 & 3
    bitrate_index, rate_index, padding = header[2] >> 4, header[2] >> 2 & 3, header[2] >> 1 & 1
    if version == 1 or layer != _LAYER_3 or bitrate_index in (0, 15) or rate_index == 3:
        return None
    first = version == _VERSION_1
    sample_rate = _SAMPLE_RATES[rate_index] >> {3: 0, 2: 1, 0: 2}[version]
    kilobits = (_BITRATES_V1 if first else _BITRATES_V2)[bitrate_index]
    num_samples = 1152 if first else 576
    mono = header[3] >> 6 == 3
    side_bytes = (17 if mono else 32) if first else (9 if mono else 17)
    return Frame(
        version, sample_rate, num_samples, num_samples // 8 * kilobits * 1000 // sample_rate + padding, side_bytes
    )


def _tag_end(file: ByteRange, position: int) -> int:
    """Skip the ID3v2 tags (pictures of any size among them) at `position`."""
    while len(header := file.bytes_at(position, 10)) == 10 and header[:3] == b"ID3":
        size = header[6] << 21 | header[7] << 14 | header[8] << 7 | header[9]
        position += 10 + size + (10 if header[5] & 0x10 else 0)
    return position


def _next_frame(file: ByteRange, position: int) -> int | None:
    """Find the first position from here where two frames of the same kind follow each other."""
    window = file.bytes_at(position, _SEARCH_BYTES)
    found = window.find(b"\xff")
    while found >= 0:
        frame = parse_frame(window[found : found + 4])
        if frame is not None and _continues(file, position + found + frame.num_bytes, frame):
            return position + found
        found = window.find(b"\xff", found + 1)
    return None


def _continues(file: ByteRange, position: int, frame: Frame) -> bool:
    follower = parse_frame(file.bytes_at(position, 4))
    return follower is not None and follower[:2] == frame[:2]


def first_frame(file: ByteRange) -> int | None:
    """Find where the sound begins; None if this is not an mp3."""
    return _next_frame(file, _tag_end(file, 0))


def has_complete_header(file: ByteRange, position: int) -> bool:
    """Tell whether the frame at `position` is a Xing header that counts all frames of the file.

    Files joined end to end begin with the header of their first part; sound after its announced end gives them away.
    """
    frame = parse_frame(file.bytes_at(position, 4))
    assert frame is not None
    tag = file.bytes_at(position + 4 + frame.side_bytes, 16)
    if len(tag) < 16 or tag[:4] not in _TAGS or not tag[7] & 1:
        return False
    if not tag[7] & 2:
        return True
    end = _tag_end(file, position + int.from_bytes(tag[12:16], "big"))
    follower = parse_frame(file.bytes_at(end, 4))
    return follower is None or not _continues(file, end + follower.num_bytes, follower)


def after_header(file: ByteRange, position: int) -> int:
    """Step over a Xing header that does not count the whole file; `first_frame` made sure that a frame follows."""
    frame = parse_frame(file.bytes_at(position, 4))
    assert frame is not None
    is_tag = file.bytes_at(position + 4 + frame.side_bytes, 4) in _TAGS
    return position + frame.num_bytes if is_tag else position


def frames_of(num_samples: int, header: bytes) -> int:
    """Compute how many frames decode to `num_samples`."""
    frame = parse_frame(header)
    assert frame is not None
    return -(-(num_samples + _DECODER_DELAY) // frame.num_samples)


def count_frames(file: ByteRange, position: int) -> int:
    """Count the frames from `position` to the end, stepping over what is not a frame."""
    count, block_start, block = 0, 0, b""
    while position + 4 <= file.size:
        if not block_start <= position <= block_start + len(block) - 4:
            block_start, block = position, file.bytes_at(position, _BLOCK_BYTES)
        frame = parse_frame(block[position - block_start : position - block_start + 4])
        if frame is None:
            following = _next_frame(file, _tag_end(file, position))
            if following is None:
                break
            position = following
        elif position + frame.num_bytes > file.size:
            break
        else:
            count += 1
            position += frame.num_bytes
    return count


def xing_frame(header: bytes, num_frames: int, num_bytes: int) -> bytes:
    """Build the silent first frame that tells a decoder how many frames follow."""
    # No checksum, a fixed bit rate, no padding; version, rate and channels as in the stream.
    head = bytes([0xFF, header[1] | 1, header[2] & 0x0C | _TAG_BITRATE_INDEX << 4, header[3]])
    frame = parse_frame(head)
    assert frame is not None
    tag = b"Xing" + struct.pack(">III", 3, num_frames, num_bytes + frame.num_bytes)
    return (head + bytes(frame.side_bytes) + tag).ljust(frame.num_bytes, b"\0")
