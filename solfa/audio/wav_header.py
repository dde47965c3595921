"""The header of a WAV file of float32 samples: nothing but sizes, so that equal audio makes equal files.

libsndfile adds a chunk that holds the time of writing to such files (PEAK), and they would differ every time.

RIFF size WAVE │ fmt: float32, channels, rate │ fact: samples │ data size │ samples ──►
└──────────────────────────────── HEADER_BYTES ─────────────────────────┘
"""

import struct

import numpy as np

from solfa.audio.channels import Audio

HEADER_BYTES = 58
"""What to skip to read nothing but float32 samples, little-endian, channels interleaved."""

SAMPLE_BYTES = 4
_IEEE_FLOAT = 3
_LARGEST = 0xFFFFFFFF
"""Sizes are 32-bit numbers: the header stops counting at 4 GB."""


def wav_header(sample_rate: int, num_channels: int, num_samples: int) -> bytes:
    """Describe `[C, N]` audio; what follows is its samples, channels interleaved."""
    frame_bytes = num_channels * SAMPLE_BYTES
    most = (_LARGEST - HEADER_BYTES) // frame_bytes
    data_bytes = min(num_samples, most) * frame_bytes
    rates = (sample_rate, sample_rate * frame_bytes, frame_bytes, 8 * SAMPLE_BYTES)
    header = struct.pack("<4sI4s", b"RIFF", HEADER_BYTES - 8 + data_bytes, b"WAVE")
    header += struct.pack("<4sIHHIIHHH", b"fmt ", 18, _IEEE_FLOAT, num_channels, *rates, 0)
    header += struct.pack("<4sII", b"fact", 4, data_bytes // frame_bytes)
    header += struct.pack("<4sI", b"data", data_bytes)
    assert len(header) == HEADER_BYTES
    return header


def wav_samples(audio: Audio) -> bytes:
    """Lay out `[C, N]` audio as the samples after a header."""
    return np.ascontiguousarray(audio.T, dtype="<f4").tobytes()
