"""Pictures of sounds and arrays as PNG bytes: spectrograms, codes over time, latents over time."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solfa.ops.mel_spectrogram import decibels, hz_to_mel, mel_spectrogram
from solfa.ui.html.colours import colour_map
from solfa.ui.html.png import encode_png

WIDTH = 560
NUM_BANDS = 128
RANGE_DB = 80.0
NUM_COLOURS = 64
"""With 64 colours, a spectrogram looks the same and is a third smaller."""

TICKS_KHZ = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)


def spectrogram_db(audio: NDArray[Any], sample_rate: int, width: int = WIDTH) -> NDArray[np.float32]:
    """Measure a sound `[C, N]` in `NUM_BANDS` mel bands and at most `width` columns, in dB relative to full scale."""
    num_samples = audio.shape[1]
    fft_size = 1 << int(np.log2(max(256, 0.046 * sample_rate)))
    hop = max(32, min(fft_size // 2, -(-num_samples // width)))
    channels = [
        mel_spectrogram(_finite(channel), sample_rate, num_bands=NUM_BANDS, fft_size=fft_size, hop_length=hop)
        for channel in audio
    ]
    return decibels(mean_columns(np.mean(channels, axis=0), width)).astype(np.float32, copy=False)


def _finite(channel: NDArray[Any]) -> NDArray[np.float32]:
    return np.nan_to_num(channel.astype(np.float32), nan=0.0, posinf=1.0, neginf=-1.0)


def mean_columns(picture: NDArray[Any], width: int) -> NDArray[Any]:
    """Average neighbouring columns until there are at most `width`."""
    num_columns = picture.shape[1]
    if num_columns <= width:
        return picture
    starts = np.arange(width) * num_columns // width
    lengths = np.diff(np.append(starts, num_columns))
    return np.asarray(np.add.reduceat(picture, starts, axis=1) / lengths)


def spectrogram_png(levels_db: NDArray[np.float32], loudest_db: float) -> bytes:
    """Draw levels with low frequencies at the bottom; the darkest colour is `RANGE_DB` below the loudest."""
    return _png((levels_db[::-1] - loudest_db) / RANGE_DB + 1.0)


def codes_png(codes: NDArray[Any], codebook_size: int, width: int = WIDTH) -> bytes:
    """Draw codes `[T, K]` over time: one row per codebook, coloured by entry.

    A single codebook is drawn as the density of its entries instead, with entry 0 at the bottom: for a companded
    waveform, that is the waveform itself.
    """
    if codes.shape[1] == 1:
        return _png(_density(codes[:, 0], codebook_size, width))
    return _png(_picked(codes, width).T / max(1, codebook_size - 1))


def latents_png(latents: NDArray[Any], width: int = WIDTH) -> bytes:
    """Draw latents `[T, Z]` over time: one row per channel; colours span the middle 96 % of the values."""
    picked = _picked(latents, width).T.astype(np.float64)
    finite = picked[np.isfinite(picked)]
    low, high = np.quantile(finite, (0.02, 0.98)) if finite.size else (0.0, 1.0)
    return _png(np.nan_to_num((picked - low) / max(high - low, 1e-12), nan=0.0, posinf=1.0, neginf=0.0))


def _picked(array: NDArray[Any], width: int) -> NDArray[Any]:
    """Take the frames at the centres of at most `width` columns, since codes cannot be averaged."""
    columns = min(width, len(array))
    return np.asarray(array[(2 * np.arange(columns) + 1) * len(array) // (2 * columns)])


def _density(column: NDArray[Any], codebook_size: int, width: int) -> NDArray[np.float64]:
    columns, rows = min(width, len(column)), min(64, codebook_size)
    across = np.arange(len(column)) * columns // len(column)
    up = column.astype(np.int64) * rows // codebook_size
    counts = np.bincount(across * rows + up, minlength=columns * rows).reshape(columns, rows).T[::-1]
    return np.asarray(np.sqrt(counts / counts.max(axis=0, keepdims=True)))


def _png(picture: NDArray[Any]) -> bytes:
    indices = np.round(np.clip(picture, 0.0, 1.0) * (NUM_COLOURS - 1)).astype(np.uint8)
    return encode_png(indices, colour_map(NUM_COLOURS))


def frequency_ticks(sample_rate: int, min_distance: float = 0.09) -> list[tuple[str, float]]:
    """Choose round frequencies for a spectrogram's axis: label in kHz, height from 0 to 1."""
    top = float(hz_to_mel(np.array([sample_rate / 2]))[0])
    heights = [(khz, float(hz_to_mel(np.array([1000.0 * khz]))[0]) / top) for khz in TICKS_KHZ]
    return _spread((f"{khz:g}", height) for khz, height in heights if height < 0.97 and (height > min_distance))


def _spread(ticks: Iterable[tuple[str, float]], min_distance: float = 0.09) -> list[tuple[str, float]]:
    kept: list[tuple[str, float]] = []
    for label, height in ticks:
        if not kept or height - kept[-1][1] >= min_distance:
            kept.append((label, height))
    return kept


def time_ticks(seconds: float, max_ticks: int = 6) -> list[tuple[str, float]]:
    """Choose round times for an axis: label in seconds, position from 0 to 1."""
    if not seconds > 0:
        return [("0", 0.0)]
    power = 10.0 ** np.floor(np.log10(seconds / max_ticks))
    step = float(next(factor * power for factor in (1, 2, 5, 10) if factor * power * max_ticks >= seconds))
    return [(f"{number * step:.6g}", number * step / seconds) for number in range(int(seconds / step + 1e-9) + 1)]
