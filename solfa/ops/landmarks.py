"""Landmarks of a sound: pairs of spectral peaks, by which copies are found without listening.

A peak is the strongest point of its frequency band for 0.4 s to each side, and is paired with the next few (A. Wang,
"An industrial-strength audio search algorithm", ISMIR 2003). Two frequencies and the time between them do not change
with gain, with where a recording was cut, or, mostly, with lossy compression:

    frequency ▲        ●────╮         a landmark, 23 bits:   first peak's bin 9 | next peak's bin 9 | time apart 5
              │   ●────╯    ╰───●     stored in 32 bits:     landmark 23 | frames since the landmark before 9
              └─────────────────► time

A typical clip of 10 s has 240 of them: 1 kB.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import soxr
from jaxtyping import Float, Float32, Float64, Int64, UInt32
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from solfa.ops.decimation import DELAY, decimate

LANDMARK_RATE, WINDOW, HOP = 8_000, 1_024, 384
LANDMARK_FRAME_RATE = LANDMARK_RATE / HOP
"""Frames per second of the spectrogram in which peaks are found."""

_EDGES = (20, 40, 60, 85, 120, 170, 240, 320, 420)
_BANDS = tuple(pairwise(_EDGES))
"""Bins of each band, from 160 to 3,280 Hz, which every codec keeps and every loudspeaker plays."""
_LOWEST = np.array(_EDGES[:-1])
_REACH = 8
"""Frames to each side in which a peak is the strongest of its band."""
_FAN_OUT, _LOOK_AHEAD = 3, 8
"""With how many of the peaks that follow each is paired, and how far it looks for them."""
_MAX_APART = 63
_FLOOR = 10 ** (-70 / 20)
"""Peaks 70 dB below the strongest of a clip are noise."""
_ROUNDING = 1e-13**0.5 * WINDOW
"""Times the largest amplitude: what float32 rounds."""
_SHORTEST = WINDOW + HOP - 2
"""Samples at `LANDMARK_RATE` below which there is no second frame, however a resampler rounds: a pair needs two."""
_BLOCK = 128
"""Frames at a time, which stay in the processor's cache."""
_HANN = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)

_BIN_BITS, _APART_BITS, _GAP_BITS = 9, 5, 9
NUM_LANDMARKS = 1 << (2 * _BIN_BITS + _APART_BITS)
"""How many different landmarks there can be."""
_MAX_GAP = (1 << _GAP_BITS) - 1
_PAUSE = NUM_LANDMARKS - 1
"""Stands for time without a landmark; its bins are outside all bands."""


class Landmarks(NamedTuple):
    """The landmarks of a clip, in the order of time."""

    pairs: Int64[np.ndarray, "n"]
    """What each is: two frequencies and the time between them, as one number below `NUM_LANDMARKS`."""
    frames: Int64[np.ndarray, "n"]
    """When each begins, at `LANDMARK_FRAME_RATE`."""


def find_landmarks(audio: Float[np.ndarray, "C N"], sample_rate: int) -> Landmarks:
    """Find the landmarks of a sound; silence has none, nor has less than 0.2 s.

    Spectra are computed in float64: processors can only disagree about points that are equally strong to many digits.

    >>> import numpy as np
    >>> from solfa.ops import find_landmarks
    >>> noise = np.random.default_rng(0).standard_normal((2, 240_000))
    >>> found = find_landmarks(noise, sample_rate=24_000)
    >>> len(found.pairs) > 100, np.array_equal(found.pairs, find_landmarks(noise / 4, sample_rate=24_000).pairs)
    (True, True)
    """
    if audio.shape[-1] * LANDMARK_RATE < _SHORTEST * sample_rate:
        return Landmarks(np.zeros(0, np.int64), np.zeros(0, np.int64))
    return _pair_up(*_peaks(_mono(audio, sample_rate)))


def _mono(audio: Float[np.ndarray, "C N"], sample_rate: int) -> Float32[np.ndarray, "n"]:
    mono = np.asarray(audio.mean(axis=0) if len(audio) > 1 else audio[0], np.float32)
    if len(mono) * LANDMARK_RATE < WINDOW * sample_rate:
        return np.zeros(0, np.float32)
    factor, rest = divmod(sample_rate, LANDMARK_RATE)
    if rest:
        # The alias of LQ is 80 dB below, and none of it reaches the bands; twice as fast as what codecs need. Without
        # its beginning, so that frames begin at the same times as those of a decimated sound.
        mono = soxr.resample(np.ascontiguousarray(mono), sample_rate, LANDMARK_RATE, quality="LQ")[DELAY:]
    elif factor > 1:
        mono = decimate(mono, factor)
    return mono if np.isfinite(mono).all() else np.zeros(0, np.float32)


def _peaks(mono: Float32[np.ndarray, "n"]) -> tuple[Int64[np.ndarray, "peaks"], Int64[np.ndarray, "peaks"]]:
    """Find the frame and the bin of each peak, in the order of time."""
    levels, bins = _strongest_bins(mono)
    loudest = max(mono.max(initial=0.0), -mono.min(initial=0.0))
    floor = max(_FLOOR * levels.max(initial=0.0), _ROUNDING * float(loudest))
    is_peak = (levels >= _largest_near(levels, _REACH)) & (levels > floor)
    frames, bands = np.nonzero(is_peak)
    return frames, bins[frames, bands]


def _strongest_bins(mono: Float32[np.ndarray, "n"]) -> tuple[Float64[np.ndarray, "T F"], Int64[np.ndarray, "T F"]]:
    """Find the strongest bin of each band in each frame, and its size: 0 if it is the slope of one beyond the band."""
    num_frames = max(0, 1 + (len(mono) - WINDOW) // HOP)
    levels = np.zeros((num_frames, len(_BANDS)))
    bins = np.zeros((num_frames, len(_BANDS)), np.int64)
    # One block's memory for all: what is asked for anew is touched for the first time by every block.
    windowed = np.empty((min(num_frames, _BLOCK), WINDOW))
    spectrum = np.empty((len(windowed), WINDOW // 2 + 1), np.complex128)
    sizes = np.empty(spectrum.shape)
    for start in range(0, num_frames, _BLOCK):
        stop = min(start + _BLOCK, num_frames)
        here = slice(stop - start)
        heard = mono[start * HOP : (stop - 1) * HOP + WINDOW]
        # sliding_window_view is the same, and would take a tenth of the time of all this.
        (apart,) = heard.strides
        frames = as_strided(heard, (stop - start, WINDOW), (HOP * apart, apart), writeable=False)
        np.multiply(frames, _HANN, out=windowed[here])
        np.fft.rfft(windowed[here], out=spectrum[here])
        np.abs(spectrum[here], out=sizes[here])
        found = np.stack([sizes[here, low:high].argmax(axis=1) for low, high in _BANDS], axis=1) + _LOWEST
        places = found + sizes.shape[1] * np.arange(stop - start)[:, None]
        level = sizes.take(places)
        levels[start:stop] = level * ((level >= sizes.take(places - 1)) & (level >= sizes.take(places + 1)))
        bins[start:stop] = found
    return levels, bins


def _largest_near(values: Float64[np.ndarray, "T F"], reach: int) -> Float64[np.ndarray, "T F"]:
    """Compute the largest value within `reach` frames of each, in log2 of that many passes."""
    width, covered = 2 * reach + 1, 1
    largest = np.zeros((len(values) + 2 * reach, values.shape[1]))
    largest[reach : reach + len(values)] = values
    while covered < width:
        step = min(covered, width - covered)
        largest = np.maximum(largest[:-step], largest[step:])
        covered += step
    return largest


def _pair_up(frames: Int64[np.ndarray, "peaks"], bins: Int64[np.ndarray, "peaks"]) -> Landmarks:
    """Pair each peak with the next `_FAN_OUT` that begin later, in the order of time."""
    never = np.full(_LOOK_AHEAD + 1, 1 << 40)  # behind the last peak, too far away to be paired
    later = sliding_window_view(np.concatenate([frames, never]), _LOOK_AHEAD + 1)
    apart = later[:-1, 1:] - frames[:, None]
    fits = (apart > 0) & (apart <= _MAX_APART)
    first, ahead = np.nonzero(fits & (fits.cumsum(axis=1) <= _FAN_OUT))
    # Half the precision in time: a peak may move by a frame if the recording is cut elsewhere.
    found = _packed(bins[first], bins[first + ahead + 1], apart[first, ahead] >> 1)
    begins = frames[first]
    by_time = np.lexsort((found, begins))
    return Landmarks(found[by_time], begins[by_time])


def _packed(
    first: Int64[np.ndarray, "n"], second: Int64[np.ndarray, "n"], apart: Int64[np.ndarray, "n"]
) -> Int64[np.ndarray, "n"]:
    return np.asarray((first << (_BIN_BITS + _APART_BITS)) | (second << _APART_BITS) | apart, np.int64)


def pack_landmarks(landmarks: Landmarks) -> UInt32[np.ndarray, "n"]:
    """Write landmarks as numbers of 32 bits; a pause of more than 24 s takes numbers of its own.

    >>> import numpy as np
    >>> from solfa.ops import find_landmarks, pack_landmarks, unpack_landmarks
    >>> found = find_landmarks(np.random.default_rng(0).standard_normal((1, 160_000)), sample_rate=16_000)
    >>> again = unpack_landmarks(pack_landmarks(found))
    >>> all(np.array_equal(one, other) for one, other in zip(found, again))
    True
    """
    if not len(landmarks.pairs):
        return np.zeros(0, np.uint32)
    pauses, gaps = np.divmod(np.diff(landmarks.frames, prepend=0), _MAX_GAP + 1)
    numbers = (landmarks.pairs << _GAP_BITS) | gaps
    if pauses.any():
        pause = np.int64(_PAUSE << _GAP_BITS | _MAX_GAP)
        numbers = np.insert(numbers, np.repeat(np.arange(len(gaps)), pauses), pause)
    return np.asarray(numbers, np.uint32)


def unpack_landmarks(numbers: UInt32[np.ndarray, "n"]) -> Landmarks:
    """Invert `pack_landmarks`.

    >>> import numpy as np
    >>> from solfa.ops import Landmarks, pack_landmarks, unpack_landmarks
    >>> packed = pack_landmarks(Landmarks(pairs=np.array([70, 90]), frames=np.array([12, 30])))
    >>> unpack_landmarks(packed)
    Landmarks(pairs=array([70, 90]), frames=array([12, 30]))
    """
    return unpack_clips(numbers, np.array([0, len(numbers)]))[0]


def unpack_clips(
    numbers: UInt32[np.ndarray, "n"], starts: Int64[np.ndarray, "clips_and_end"]
) -> tuple[Landmarks, Int64[np.ndarray, "m"]]:
    """Invert `pack_landmarks` for many clips laid end to end; the last array says whose each landmark is."""
    wide = numbers.astype(np.int64)
    pairs, gaps = wide >> _GAP_BITS, wide & _MAX_GAP
    is_pause = pairs == _PAUSE
    passed = np.cumsum(np.concatenate([np.zeros(1, np.int64), gaps + is_pause]))
    lengths = np.diff(starts)
    frames = passed[1:] - np.repeat(passed[starts[:-1]], lengths)
    clips = np.repeat(np.arange(len(lengths)), lengths)
    kept = ~is_pause
    return Landmarks(pairs[kept], frames[kept]), clips[kept]


def at_speed(landmarks: Landmarks, speed: float) -> Landmarks:
    """Say what the landmarks would be if the sound were played `speed` times as fast."""
    mask = (1 << _BIN_BITS) - 1
    pairs = landmarks.pairs
    first, second = ((pairs >> shift) & mask for shift in (_BIN_BITS + _APART_BITS, _APART_BITS))
    apart = pairs & ((1 << _APART_BITS) - 1)
    first, second = (np.rint(bins * speed).astype(np.int64) for bins in (first, second))
    # `apart` counts pairs of frames, rounded down: the middle of what it stands for is half a frame later.
    apart = ((apart + 0.25) / speed).astype(np.int64)
    inside = (first <= mask) & (second <= mask) & (apart < 1 << _APART_BITS)
    frames = np.rint(landmarks.frames / speed).astype(np.int64)
    return Landmarks(_packed(first, second, apart)[inside], frames[inside])
