"""Mel spectrograms in numpy, for pictures and for comparing two sounds.

The mel scale is O'Shaughnessy's, 2595 log10(1 + f / 700). Triangles peak at 1, so that a sine of amplitude 1 has about
the same height in every band; a triangle is never narrower than two bins of the transform, so none is empty.
"""

import numpy as np
from jaxtyping import Float, Float32

FRAMES_AT_ONCE = 512
"""Frames are transformed in blocks, so that memory use does not grow with the recording."""


def hz_to_mel(frequency_hz: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Convert frequencies to mels."""
    return np.asarray(2595.0 * np.log10(1.0 + frequency_hz / 700.0))


def mel_to_hz(mel: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Invert `hz_to_mel`."""
    return np.asarray(700.0 * (10.0 ** (mel / 2595.0) - 1.0))


def mel_filters(
    num_bands: int, fft_size: int, sample_rate: int, max_hz: float, min_hz: float = 0.0
) -> Float[np.ndarray, "F bins"]:
    """Compute the weights of a transform's bins for every band."""
    low, high = hz_to_mel(np.array([min_hz, max_hz]))
    edges = mel_to_hz(np.linspace(low, high, num_bands + 2))
    bin_hz = sample_rate / fft_size
    bins = np.arange(fft_size // 2 + 1) * bin_hz
    centres = edges[1:-1, None]
    rise = np.maximum(centres - edges[:-2, None], bin_hz)
    fall = np.maximum(edges[2:, None] - centres, bin_hz)
    return np.asarray(np.clip(np.minimum((bins - centres + rise) / rise, (centres + fall - bins) / fall), 0.0, 1.0))


def mel_spectrogram(
    audio: Float[np.ndarray, "N"],
    sample_rate: int,
    *,
    num_bands: int = 96,
    fft_size: int = 2048,
    hop_length: int = 512,
    max_hz: float | None = None,
    min_hz: float = 0.0,
) -> Float32[np.ndarray, "F T"]:
    """Measure the power in mel bands over time, one column every `hop_length` samples.

    Frames are centred and the ends are padded with silence: `T = 1 + N // hop_length`. A full-scale sine has a power
    of about one.
    """
    filters = mel_filters(num_bands, fft_size, sample_rate, max_hz or sample_rate / 2, min_hz).T.astype(np.float32)
    window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(fft_size) / fft_size)
    window = (window * (2.0 / window.sum())).astype(np.float32)
    padded = np.pad(audio.astype(np.float32, copy=False), (fft_size // 2, fft_size // 2))
    frames = np.lib.stride_tricks.sliding_window_view(padded, fft_size)[::hop_length]
    mel = np.empty((num_bands, len(frames)), np.float32)
    for start in range(0, len(frames), FRAMES_AT_ONCE):
        spectrum = np.fft.rfft(frames[start : start + FRAMES_AT_ONCE] * window, axis=1)
        power = spectrum.real**2 + spectrum.imag**2
        mel[:, start : start + len(power)] = (power @ filters).T
    return mel


def decibels(power: Float[np.ndarray, "*shape"], floor_db: float = -120.0) -> Float[np.ndarray, "*shape"]:
    """Convert power to decibels, but no lower than a floor."""
    return np.asarray(10.0 * np.log10(np.maximum(power, 10.0 ** (floor_db / 10.0))))
