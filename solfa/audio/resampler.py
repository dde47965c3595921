"""Which output samples belong to a span, and how much of the source around it they need.

Output sample j lies at source time j * source_rate / sample_rate. A span owns the output samples that lie within it, so
every sample belongs to exactly one of consecutive spans, and resampling span by span equals resampling the whole.
"""

from math import gcd

import numpy as np
import numpy.typing as npt
import soxr

Audio = npt.NDArray[np.float32]
"""`[C, N]`"""

_QUALITY = "VHQ"
"""Spans join bit-exactly for all common pairs of rates, while HQ, which computes in single precision, leaves errors of
1e-6; at 1,750 times real time it costs little next to any codec."""

_MARGIN = 512
"""Samples at the lower of the two rates. The filter reaches 128 to each side; more changes nothing (measured)."""


def resampled_span(start: int, stop: int, source_rate: int, sample_rate: int) -> tuple[int, int]:
    """Find the output samples of a span of source samples.

    A span without an output sample (one source sample at a sixth of the rate, say) still yields one: the next.
    """
    first = -(-start * sample_rate // source_rate)
    last = -(-stop * sample_rate // source_rate)
    return first, max(last, first + 1) if stop > start else last


def source_margin(start: int, stop: int, num_samples: int, source_rate: int, sample_rate: int) -> tuple[int, int]:
    """Widen a span by the filter's reach, to start where a source and an output sample coincide."""
    if source_rate == sample_rate:
        return start, stop
    margin = _margin(source_rate, sample_rate)
    step = source_rate // gcd(source_rate, sample_rate)
    return max(0, start - margin) // step * step, min(num_samples, stop + margin)


def _margin(source_rate: int, sample_rate: int) -> int:
    return -(-_MARGIN * source_rate // min(source_rate, sample_rate))


def resample_span(audio: Audio, audio_start: int, start: int, stop: int, source_rate: int, sample_rate: int) -> Audio:
    """Resample audio that begins at source sample `audio_start` and keep what belongs to the span."""
    if source_rate == sample_rate:
        return audio[:, start - audio_start : stop - audio_start]
    first, last = resampled_span(start, stop, source_rate, sample_rate)
    offset = audio_start * sample_rate // source_rate
    # Append silence to the end of a file, as when the whole is resampled: soxr may round its length down or up.
    reach = audio_start + audio.shape[1] - stop
    padding = max(0, _margin(source_rate, sample_rate) - reach)
    padded = np.pad(audio, ((0, 0), (0, padding))).T
    # soxr takes [N, C]; it would treat a single column as a split layout, which gives the same numbers.
    resampled = np.asarray(soxr.resample(np.ascontiguousarray(padded), source_rate, sample_rate, quality=_QUALITY))
    return np.ascontiguousarray(resampled.T[:, first - offset : last - offset], dtype=np.float32)
