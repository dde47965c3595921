"""A WAV file that can be played while it grows: at any time, its header says how much is there.

RIFF size WAVE │ fmt: float32, channels, rate │ fact: samples │ data size │ samples ──►
└──────────────────────────── HEADER_BYTES, written again after every append ───────────┘
"""

import struct
from pathlib import Path
from typing import final

import numpy as np

from solfa.audio.channels import Audio

HEADER_BYTES = 58
"""What to skip to read nothing but float32 samples, little-endian, channels interleaved."""

_SAMPLE_BYTES = 4
_IEEE_FLOAT = 3
_LARGEST = 0xFFFFFFFF
"""Sizes are 32-bit numbers: the header stops counting at 4 GB."""


@final
class GrowingWav:
    """A float WAV that grows block by block; if the process is killed, all blocks but the last are intact."""

    def __init__(self, path: Path, sample_rate: int, num_channels: int) -> None:
        """Start an empty file, replacing an existing one; a link is replaced, not followed."""
        self._sample_rate, self._num_channels, self._num_samples = sample_rate, num_channels, 0
        path.unlink(missing_ok=True)
        self._file = path.open("xb")
        self._write_header()

    def append(self, audio: Audio) -> None:
        """Add `[C, n]` samples."""
        assert len(audio) == self._num_channels, f"expected {self._num_channels} channels, found {len(audio)}"
        self._file.seek(HEADER_BYTES + self._num_samples * self._num_channels * _SAMPLE_BYTES)
        self._file.write(np.ascontiguousarray(audio.T, dtype="<f4").tobytes())
        # Samples first: the header may count too few of them, but never too many.
        self._file.flush()
        self._num_samples += audio.shape[1]
        self._write_header()

    def close(self) -> None:
        """Stop growing."""
        self._file.close()

    def _write_header(self) -> None:
        self._file.seek(0)
        self._file.write(_header(self._sample_rate, self._num_channels, self._num_samples))
        self._file.flush()


def _header(sample_rate: int, num_channels: int, num_samples: int) -> bytes:
    frame_bytes = num_channels * _SAMPLE_BYTES
    most = (_LARGEST - HEADER_BYTES) // frame_bytes
    data_bytes = min(num_samples, most) * frame_bytes
    rates = (sample_rate, sample_rate * frame_bytes, frame_bytes, 8 * _SAMPLE_BYTES)
    header = struct.pack("<4sI4s", b"RIFF", HEADER_BYTES - 8 + data_bytes, b"WAVE")
    header += struct.pack("<4sIHHIIHHH", b"fmt ", 18, _IEEE_FLOAT, num_channels, *rates, 0)
    header += struct.pack("<4sII", b"fact", 4, data_bytes // frame_bytes)
    header += struct.pack("<4sI", b"data", data_bytes)
    assert len(header) == HEADER_BYTES
    return header
