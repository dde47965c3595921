"""Read the PNGs that Solfa writes, by the specification and not by its own code."""

import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest

from tests.disks import no_waiting_for_disks  # noqa: F401


def _read_png(content: bytes) -> np.ndarray:
    """Decode an 8-bit palette picture without filters to `[height, width, 3]`, checking every checksum."""
    assert content[:8] == bytes([137, 80, 78, 71, 13, 10, 26, 10])
    chunks, place = [], 8
    while place < len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        body = content[place + 4 : place + 8 + length]
        assert struct.unpack(">I", content[place + 8 + length : place + 12 + length])[0] == zlib.crc32(body)
        chunks.append((body[:4], body[4:]))
        place += 12 + length
    assert [kind for kind, _ in chunks] == [b"IHDR", b"PLTE", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[0][1])
    assert rest == [8, 3, 0, 0, 0]
    palette = np.frombuffer(chunks[1][1], np.uint8).reshape(-1, 3)
    rows = np.frombuffer(zlib.decompress(chunks[2][1]), np.uint8).reshape(height, width + 1)
    assert (rows[:, 0] == 0).all()
    return palette[rows[:, 1:]]


@pytest.fixture(scope="session")
def read_png() -> Callable[[bytes], np.ndarray]:
    return _read_png
