"""How close copies are to what they are copies of, clip by clip: SI-SDR, mel distance, ViSQOL, PESQ, STOI."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from solfa.audio.probe import probe
from solfa.audio.reader import read_span
from solfa.audio.recording import AudioSource
from solfa.audio.sources.location import locate_recording
from solfa.evaluate.perception import SPEECH_RATE, VISQOL_RATE, pesq_quality, stoi_intelligibility, visqol
from solfa.ops.audio_metrics import batch_mel_distance_db, si_sdr

WAVEFORM_RATE = 24_000
LENGTH_TOLERANCE_SECONDS = 0.1
NUM_BOUNDED = 8
"""How many originals tell what the best and the worst copy would be given: some measures take seconds a clip."""

Mono = NDArray[np.float32]


class CopyMeasure(NamedTuple):
    """A measure of a copy: at which rate it hears, and how it is computed from `[N]` and `[N]`."""

    sample_rate: int
    compute: Callable[[Mono, Mono], float | None]
    unit: str
    higher_is_better: bool


def _si_sdr(original: Mono, copy: Mono) -> float:
    return float(si_sdr(torch.from_numpy(copy)[None], torch.from_numpy(original)[None]))


def _mel(original: Mono, copy: Mono) -> float:
    one, other = (torch.from_numpy(sound)[None, None] for sound in (copy, original))
    return float(batch_mel_distance_db(one, other, WAVEFORM_RATE))


COPY_MEASURES: Mapping[str, CopyMeasure] = {
    "si_sdr": CopyMeasure(WAVEFORM_RATE, _si_sdr, "dB", True),
    "mel": CopyMeasure(WAVEFORM_RATE, _mel, "dB", False),
    "visqol": CopyMeasure(VISQOL_RATE, visqol, "MOS", True),
    "pesq": CopyMeasure(SPEECH_RATE, pesq_quality, "MOS", True),
    "stoi": CopyMeasure(SPEECH_RATE, stoi_intelligibility, "", True),
}


class Sounds:
    """Reads the recordings of a source by key."""

    def __init__(self, source: AudioSource) -> None:
        self._root = source.root
        self._by_key = {recording.key: recording for recording in source.recordings()}

    def read(
        self, key: str, sample_rate: int | None = None, num_channels: int | None = None
    ) -> tuple[NDArray[Any], int]:
        """Read a recording `[C, N]` and its rate; its own rate and channels, unless others are asked for."""
        recording = self._by_key[key]
        location = locate_recording(self._root, recording)
        info = probe(location)
        rate = sample_rate or info.sample_rate
        return read_span(location, info, 0, info.num_samples, rate, num_channels or info.num_channels), rate


def copy_scores(
    pairs: Sequence[tuple[str, str]], originals: Sounds, copies: Sounds, measures: Sequence[str]
) -> Iterator[dict[str, float]]:
    """Measure each pair of an original and its copy; NaN where a measure does not apply."""
    for original, copy in pairs:
        found = dict.fromkeys(measures, float("nan"))
        for rate in _rates(measures):
            one, other = (sounds.read(key, rate, 1)[0][0] for sounds, key in ((originals, original), (copies, copy)))
            if abs(len(one) - len(other)) > LENGTH_TOLERANCE_SECONDS * rate:
                break  # it is another take, not a copy
            length = min(len(one), len(other))
            found |= _scores_at(rate, one[:length], other[:length], measures)
        yield found


def copy_bounds(
    keys: Sequence[str], originals: Sounds, measures: Sequence[str], on_clip: Callable[[int, int], None]
) -> dict[str, tuple[float, float]]:
    """Measure what a perfect copy of some originals gets, and what noise that is as loud as they are gets.

    `on_clip(done, total)` is called after each: with ViSQOL, it takes as long as two copies.
    """
    rows: list[list[tuple[float, float]]] = []
    on_clip(0, min(len(keys), NUM_BOUNDED))
    for index, key in enumerate(keys[:NUM_BOUNDED]):
        perfect: dict[str, float] = {}
        noisy: dict[str, float] = {}
        for rate in _rates(measures):
            original = originals.read(key, rate, 1)[0][0]
            perfect |= _scores_at(rate, original, original, measures)
            noisy |= _scores_at(rate, original, _noise_like(original, index), measures)
        rows.append([(perfect[name], noisy[name]) for name in measures])
        on_clip(len(rows), min(len(keys), NUM_BOUNDED))
    means = [_known_mean(values) for values in np.array(rows).reshape(len(rows), -1).T]
    return {name: (means[2 * place], means[2 * place + 1]) for place, name in enumerate(measures)}


def _rates(measures: Sequence[str]) -> list[int]:
    return sorted({COPY_MEASURES[name].sample_rate for name in measures})


def _scores_at(rate: int, original: Mono, copy: Mono, measures: Sequence[str]) -> dict[str, float]:
    """Apply the measures that hear at one rate."""
    found = {}
    for name in measures:
        if COPY_MEASURES[name].sample_rate == rate:
            value = COPY_MEASURES[name].compute(original, copy)
            found[name] = float("nan") if value is None else value
    return found


def _noise_like(original: Mono, seed: int) -> Mono:
    loudness = float(np.sqrt(np.mean(np.square(original, dtype=np.float64))))
    return (loudness * np.random.default_rng(seed).standard_normal(len(original))).astype(np.float32)


def _known_mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
