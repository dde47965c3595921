"""How close a decoded excerpt is to the original, by five measures.

SI-SDR and mel distance at 24 kHz (`solfa.ops.audio_metrics`); ViSQOL in its audio mode at 48 kHz (Chinen et al. 2020;
the package visqol-python, which holds the model); PESQ (wide band) and STOI at 16 kHz, on speech only.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import soxr
import torch

from solfa.errors import ConfigError
from solfa.evaluate.perception import SPEECH_RATE, pesq_quality, stoi_intelligibility, visqol
from solfa.ops import si_sdr
from solfa.ops.audio_metrics import batch_mel_distance_db

from .clips import SAMPLE_RATE, Mono

WAVEFORM_RATE = 24_000
PACKAGES = ("visqol-python", "pesq", "pystoi")


@dataclass(frozen=True)
class Scores:
    """None where a measure does not apply."""

    visqol: float
    si_sdr_db: float
    mel_db: float
    pesq: float | None = None
    stoi: float | None = None

    def as_dict(self) -> dict[str, float | None]:
        return asdict(self)


def versions() -> Mapping[str, str]:
    """Give the versions of the packages that measure; they are part of what a cached number depends on."""
    try:
        return {name: version(name) for name in PACKAGES}
    except PackageNotFoundError as error:
        raise ConfigError(f"the package {error.name} is missing; run pip install 'solfa[eval]'") from None


def resample(audio: Mono, source_rate: int, sample_rate: int) -> Mono:
    """Change the rate; the result covers the same time, rounded up to a whole sample."""
    if source_rate == sample_rate:
        return audio
    changed = np.asarray(soxr.resample(audio, source_rate, sample_rate, quality="VHQ"), np.float32)
    return fit_length(changed, -(-len(audio) * sample_rate // source_rate))


def fit_length(audio: Mono, num_samples: int) -> Mono:
    """Cut, or add silence."""
    return np.pad(audio[:num_samples], (0, max(0, num_samples - len(audio))))


def find_lag(decoded: Mono, reference: Mono, max_lag: int) -> int:
    """Find by how many samples `decoded` comes late (or, below zero, early), where the correlation is highest."""
    size = 1 << (max(len(decoded), len(reference)) + max_lag).bit_length()
    spectrum = np.fft.rfft(decoded, size) * np.conj(np.fft.rfft(reference, size))
    correlation = np.fft.irfft(spectrum, size)
    lags = np.arange(-max_lag, max_lag + 1)
    return int(lags[np.argmax(correlation[lags])])


def shift(audio: Mono, lag: int, num_samples: int) -> Mono:
    """Undo a lag, and give the result a length."""
    return fit_length(audio[lag:] if lag >= 0 else np.pad(audio, (-lag, 0)), num_samples)


def score(reference: Mono, decoded: Mono, decoded_rate: int, *, is_speech: bool) -> Scores:
    """Compare a decoded excerpt with its reference at 48 kHz."""
    one, other = (
        torch.from_numpy(audio)[None, None] for audio in _pair(reference, decoded, decoded_rate, WAVEFORM_RATE)
    )
    return Scores(
        visqol(*_pair(reference, decoded, decoded_rate, SAMPLE_RATE)),
        float(si_sdr(other, one)),
        float(batch_mel_distance_db(other, one, WAVEFORM_RATE)),
        *(speech_scores(*_pair(reference, decoded, decoded_rate, SPEECH_RATE)) if is_speech else ()),
    )


def _pair(reference: Mono, decoded: Mono, decoded_rate: int, sample_rate: int) -> tuple[Mono, Mono]:
    one = resample(reference, SAMPLE_RATE, sample_rate)
    return one, fit_length(resample(decoded, decoded_rate, sample_rate), len(one))


def speech_scores(reference: Mono, decoded: Mono) -> tuple[float | None, float | None]:
    """Measure PESQ and STOI; None where they find too little speech to compare."""
    return pesq_quality(reference, decoded), stoi_intelligibility(reference, decoded)
