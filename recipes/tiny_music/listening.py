"""Listen by machine: the tempo, the key and the faults of a clip, from its samples alone.

Tempo: the spectral flux (how much louder the bands of a mel spectrum become) is correlated with itself; a tempo is
supported by what repeats after one, two and four beats, and after three in a waltz. The range is the recipe's, less
than an octave, so that a tempo is never confused with its double.

Key: energy per pitch class, compared with what the 24 keys would have, and at the end with their tonic triads, because
a piece ends at home.
"""

from typing import NamedTuple

import numpy as np
from harmony import SCALES, all_keys
from numpy.typing import NDArray
from spec import FASTEST, SLOWEST

Sound = NDArray[np.float32]

HOP_SECONDS = 0.01
NUM_BANDS = 40
LOWEST_HZ, HIGHEST_HZ = 75.0, 2100.0
CHROMA_WINDOW_SECONDS, CHROMA_HOP_SECONDS = 0.34, 0.085
PROFILES = {
    "major": (5.0, 2.0, 3.5, 2.0, 4.5, 4.0, 2.0, 4.5, 2.0, 3.5, 1.5, 4.0),
    "minor": (5.0, 2.0, 3.5, 4.5, 2.0, 4.0, 2.0, 4.5, 3.5, 2.0, 1.5, 4.0),
}
"""How much of each degree a piece has (Temperley, "What's key for key?", 1999)."""
END_SECONDS = (8.9, 9.5)
"""When only the last chord is heard, in pieces of the recipe."""
END_WEIGHT = 1.0
WALTZES = 0.85
"""What repeats every bar of four also repeats every three beats of a tempo that is half as fast again."""
SILENT_RMS, CLIPPED_LEVEL, CLIPPED_SHARE = 1e-3, 0.999, 1e-4


class Heard(NamedTuple):
    """What a clip sounds like."""

    bpm: float
    tonic: int
    mode: str
    is_silent: bool
    is_clipped: bool


def listen(sound: Sound, sample_rate: int) -> Heard:
    """Measure one clip `[N]`."""
    tonic, mode = find_key(sound, sample_rate)
    is_silent = float(np.sqrt(np.mean(sound**2))) < SILENT_RMS
    is_clipped = float(np.mean(np.abs(sound) >= CLIPPED_LEVEL)) > CLIPPED_SHARE
    return Heard(find_tempo(sound, sample_rate), tonic, mode, is_silent, is_clipped)


def frames_of(sound: Sound, size: int, hop: int) -> NDArray[np.float32]:
    """Cut a sound into windows `[T, size]` that are centred on every hop."""
    padded = np.pad(sound, (size // 2, size // 2 + hop))
    return np.lib.stride_tricks.sliding_window_view(padded, size)[: 1 + len(sound) // hop * hop : hop]


def mel_bands(sound: Sound, sample_rate: int, size: int, hop: int, num_bands: int) -> NDArray[np.float32]:
    """Return the power in mel bands, `[T, F]`."""
    spectrum = np.abs(np.fft.rfft(frames_of(sound, size, hop) * np.hanning(size), axis=1)) ** 2
    mel = np.linspace(0.0, 2595.0 * np.log10(1.0 + sample_rate / 1400.0), num_bands + 2)
    edges = 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    frequency = np.fft.rfftfreq(size, 1.0 / sample_rate)
    rising = (frequency[:, None] - edges[None, :-2]) / np.diff(edges)[None, :-1]
    falling = (edges[None, 2:] - frequency[:, None]) / np.diff(edges)[None, 1:]
    return np.asarray(spectrum @ np.clip(np.minimum(rising, falling), 0.0, None), np.float32)


def onset_strength(sound: Sound, sample_rate: int) -> NDArray[np.float64]:
    """Return how much louder the bands become, per `HOP_SECONDS`."""
    hop = round(HOP_SECONDS * sample_rate)
    power = mel_bands(sound, sample_rate, 4 * hop, hop, NUM_BANDS)
    loudness = np.log1p(1e4 * power / max(float(power.max()), 1e-12))
    flux = np.clip(loudness[2:] - loudness[:-2], 0.0, None).mean(axis=1)
    smooth = np.convolve(flux, np.ones(41) / 41, mode="same")
    return np.clip(np.asarray(flux - smooth, np.float64), 0.0, None)


def find_tempo(sound: Sound, sample_rate: int) -> float:
    """Find the tempo, in beats per minute, of the recipe's range."""
    strength = onset_strength(sound, sample_rate)
    size = 2 * len(strength)
    spectrum = np.fft.rfft(strength, size)
    repeated = np.fft.irfft(np.abs(spectrum) ** 2, size)[: len(strength)]
    repeated /= max(repeated[0], 1e-12)
    candidates = np.arange(SLOWEST, FASTEST + 0.25, 0.25)
    beats = 60.0 / candidates / HOP_SECONDS
    lags = np.arange(len(repeated))

    def after(count: float) -> NDArray[np.float64]:
        return np.interp(count * beats, lags, repeated)

    four = after(0.5) * 0.5 + after(1) + after(2) + after(4)
    three = after(0.5) * 0.5 + after(1) + after(3) + after(6)
    return float(candidates[np.argmax(np.maximum(four, WALTZES * three))])


def chroma(sound: Sound, sample_rate: int) -> NDArray[np.float64]:
    """Return the energy of each pitch class over time, `[T, 12]`."""
    size, hop = round(CHROMA_WINDOW_SECONDS * sample_rate), round(CHROMA_HOP_SECONDS * sample_rate)
    spectrum = np.abs(np.fft.rfft(frames_of(sound, size, hop) * np.hanning(size), axis=1))
    frequency = np.fft.rfftfreq(size, 1.0 / sample_rate)
    kept = (frequency >= LOWEST_HZ) & (frequency <= HIGHEST_HZ)
    note = 69.0 + 12.0 * np.log2(frequency[kept] / 440.0)
    away = (note[:, None] - np.arange(12)[None] + 6.0) % 12.0 - 6.0
    weights = np.exp(-0.5 * (away / 0.25) ** 2) / frequency[kept][:, None] ** 0.5
    return np.asarray(np.sqrt(spectrum[:, kept]) @ weights, np.float64)


def find_key(sound: Sound, sample_rate: int) -> tuple[int, str]:
    """Find the tonic and the mode."""
    classes = chroma(sound, sample_rate)
    start, stop = (round(seconds / CHROMA_HOP_SECONDS) for seconds in END_SECONDS)
    whole, end = classes.mean(axis=0), classes[start:stop].mean(axis=0)
    scores = {}
    for tonic, mode in all_keys():
        triad = np.isin(np.arange(12), [SCALES[mode][step] for step in (0, 2, 4)]) + (np.arange(12) == 0)
        fits = _correlation(whole, np.roll(PROFILES[mode], tonic))
        scores[tonic, mode] = fits + END_WEIGHT * _correlation(end, np.roll(triad, tonic))
    return max(scores, key=lambda key: scores[key])


def _correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    first, second = one - one.mean(), other - other.mean()
    return float(first @ second / max(float(np.linalg.norm(first) * np.linalg.norm(second)), 1e-12))
