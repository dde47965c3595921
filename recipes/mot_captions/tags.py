"""The tags of Ogg files, those included that libsndfile does not pass on, such as DESCRIPTION."""

import struct
from pathlib import Path

from solfa.errors import AudioError

_HEAD_BYTES = 1 << 16
_MARKS = (b"\x03vorbis", b"OpusTags")


def read_tags(path: Path) -> dict[str, str]:
    """Read the tags of an Ogg Vorbis or Opus file, their names in lower case."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    mark = next((mark for mark in _MARKS if mark in head), None)
    if mark is None:
        raise AudioError(f"{path}: expected an Ogg file with Vorbis or Opus tags, found none; unpack the package again")
    try:
        return parse_comments(head[head.index(mark) + len(mark) :])
    except struct.error:
        raise AudioError(f"{path}: its tags end too early; unpack the package again") from None


def parse_comments(content: bytes) -> dict[str, str]:
    """Read a comment header (RFC 7845, 5.2, the same in Vorbis) from where the length of the vendor's name stands."""
    _, position = _string_at(content, 0)
    (count,) = struct.unpack_from("<I", content, position)
    position += 4
    tags: dict[str, str] = {}
    for _ in range(count):
        text, position = _string_at(content, position)
        name, _, value = text.partition("=")
        tags[name.lower()] = value.strip()
    return tags


def _string_at(content: bytes, position: int) -> tuple[str, int]:
    """Read a string after its length, and return where the next thing begins."""
    (length,) = struct.unpack_from("<I", content, position)
    end = position + 4 + length
    return content[position + 4 : end].decode("utf-8", "replace"), end
