"""Write PNG files with a palette: a signature and four kinds of chunks are all it takes."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray


def encode_png(indices: NDArray[np.uint8], palette: NDArray[np.uint8]) -> bytes:
    """Encode a picture `[height, width]` of indices into a palette `[at most 256, 3]` of red, green and blue."""
    height, width = indices.shape
    assert indices.dtype == np.uint8 and height and width and int(indices.max()) < len(palette) <= 256
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)  # 8 bits, palette, no interlacing
    rows = np.zeros((height, width + 1), np.uint8)  # each row starts with its filter: 0, none
    rows[:, 1:] = indices
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", header),
            _chunk(b"PLTE", palette.astype(np.uint8).tobytes()),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
