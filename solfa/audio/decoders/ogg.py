"""The pages of an Ogg file: where its links begin, and how far a seek can be trusted (RFC 3533).

A chained Ogg is several complete files, one after the other. libsndfile reads the first and silently drops the rest,
so each link is decoded as a separate file.
"""

import struct
from typing import NamedTuple

from solfa.audio.decoders.byte_range import ByteRange

MAGIC = b"OggS"
_HEADER_BYTES = 27
_MAX_PAGE_BYTES = _HEADER_BYTES + 255 + 255 * 255
_FIRST_PAGE = 2
_NO_PACKET_ENDS = -1


class Page(NamedTuple):
    """A page header."""

    position: int
    num_bytes: int
    is_first: bool
    serial: int
    granule: int


class Link(NamedTuple):
    """One complete stream of a chained file."""

    start: int
    stop: int


def read_page(file: ByteRange, position: int) -> Page | None:
    """Read the page header at `position`; None if no complete page is there."""
    head = file.bytes_at(position, _HEADER_BYTES + 255)
    if len(head) < _HEADER_BYTES or head[:4] != MAGIC:
        return None
    kind, granule, serial, num_segments = struct.unpack("<xxxxxBqI8xB", head[:_HEADER_BYTES])
    lengths = head[_HEADER_BYTES : _HEADER_BYTES + num_segments]
    num_bytes = _HEADER_BYTES + num_segments + sum(lengths)
    if len(lengths) < num_segments or position + num_bytes > file.size:
        return None
    return Page(position, num_bytes, bool(kind & _FIRST_PAGE), serial, granule)


def last_pages(file: ByteRange) -> list[Page]:
    """Read the pages that lie completely within the last two pages' worth of bytes."""
    start = max(0, file.size - 2 * _MAX_PAGE_BYTES)
    tail = file.bytes_at(start, 2 * _MAX_PAGE_BYTES)
    pages: list[Page] = []
    found = tail.find(MAGIC)
    while found >= 0:
        page = read_page(file, start + found)
        if page is not None:
            pages.append(page)
        # Skip whole pages: the four letters may also occur inside the audio data.
        found = tail.find(MAGIC, found + (page.num_bytes if page else 1))
    return pages


def find_links(file: ByteRange) -> list[Link]:
    """Cut a file into its links; a file that is not chained is one link."""
    first, tail = read_page(file, 0), last_pages(file)
    if first is None or all(page.serial == first.serial for page in tail):
        # The usual case, settled by the two ends of the file.
        return [Link(0, file.size)]
    starts, within_heads, position = [0], True, 0
    while (page := read_page(file, position)) is not None:
        # The heads of multiplexed streams come together; a head after anything else begins the next link.
        if page.is_first and not within_heads:
            starts.append(position)
        within_heads = page.is_first
        position += page.num_bytes
    return [Link(start, stop) for start, stop in zip(starts, [*starts[1:], file.size], strict=True)]


def last_page_granules(file: ByteRange) -> int | None:
    """Compute the length of the last page in granules; None if there are fewer than two pages to tell it from.

    libsndfile places a seek into the last page wrongly, because that page's position is the end of the sound and not
    the end of its last block (measured: 70 of 100 seeks into the last 3,000 samples of a Vorbis file were shifted).
    """
    ends = [page.granule for page in last_pages(file) if page.granule != _NO_PACKET_ENDS]
    return abs(ends[-1] - ends[-2]) if len(ends) >= 2 else None
