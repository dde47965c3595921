"""What is wrong with a clip, whatever it is meant to be: silence, clipping, loudness, length, channels.

Loudness is that of ITU-R BS.1770-4, with its filters applied as gains to the spectrum of every block of 400 ms.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_SECONDS, STEP_SECONDS = 0.4, 0.1
ABSOLUTE_GATE, RELATIVE_GATE = -70.0, -10.0
SILENT_DB = -60.0
"""A block quieter than this is silent."""
FULL_SCALE = 0.999
_HEADROOM_RUN = 3
"""So many samples at full scale in a row are clipped; a single one is a peak."""

MOST_SILENT, MOST_CLIPPED, QUIETEST, LOUDEST = 0.5, 1e-3, -45.0, -5.0
LENGTH_TOLERANCE = 0.1
OUT_OF_PHASE = -0.5


@dataclass(frozen=True)
class ClipFacts:
    """What can be measured of a clip alone."""

    seconds: float
    peak: float
    loudness: float
    """LUFS; minus infinity for silence."""
    silent_share: float
    clipped_share: float
    num_channels: int
    stereo_correlation: float | None
    """Of left and right: 1 for the same, -1 for opposite; None if it is mono or a channel is silent."""
    faults: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Spell it in plain values."""
        loudness = self.loudness if np.isfinite(self.loudness) else None
        return {**asdict(self), "loudness": loudness, "faults": list(self.faults)}


def clip_facts(audio: NDArray[Any], sample_rate: int, expected_seconds: float | None = None) -> ClipFacts:
    """Measure a clip `[C, N]`, and name its faults; a length is a fault if it is not what was expected.

    >>> import numpy as np
    >>> from solfa.evaluate import clip_facts
    >>> clip_facts(np.zeros((1, 16_000), np.float32), 16_000, expected_seconds=2.0).faults
    ('silence', 'duration')
    """
    sound = np.asarray(audio, np.float64)
    seconds = sound.shape[1] / sample_rate
    loud, silent = loudness(sound, sample_rate), silent_share(sound, sample_rate)
    clipped, correlation = clipped_share(sound), stereo_correlation(sound)
    faults = {
        "silence": silent > MOST_SILENT,
        "clipping": clipped > MOST_CLIPPED,
        "loudness": silent <= MOST_SILENT and not QUIETEST <= loud <= LOUDEST,
        "duration": expected_seconds is not None and abs(seconds / expected_seconds - 1.0) > LENGTH_TOLERANCE,
        "stereo": _is_odd_stereo(sound, correlation),
    }
    return ClipFacts(
        seconds,
        float(np.abs(sound).max(initial=0.0)),
        loud,
        silent,
        clipped,
        len(sound),
        correlation,
        tuple(name for name, is_fault in faults.items() if is_fault),
    )


def loudness(sound: NDArray[np.float64], sample_rate: int) -> float:
    """Return the gated loudness in LUFS; a full-scale sine of 997 Hz in one channel has -3.01."""
    blocks = _blocks(sound, sample_rate)
    size = blocks.shape[-1]
    gains = _k_weighting(np.fft.rfftfreq(size, 1.0 / sample_rate))
    spectrum = np.square(np.abs(np.fft.rfft(blocks, axis=-1)) * gains)
    spectrum[..., 1 : -1 if size % 2 == 0 else None] *= 2.0
    power = spectrum.sum(axis=-1).sum(axis=0) / size**2  # Parseval, summed over the channels
    levels = _lufs(power)
    heard = power[levels > ABSOLUTE_GATE]
    if not len(heard):
        return float("-inf")
    gate = _lufs(heard.mean()) + RELATIVE_GATE
    return float(_lufs(heard[_lufs(heard) > gate].mean()))


def _lufs(power: Any) -> Any:
    return -0.691 + 10.0 * np.log10(np.maximum(power, 1e-20))


def _blocks(sound: NDArray[np.float64], sample_rate: int) -> NDArray[np.float64]:
    """Cut `[C, N]` into overlapping blocks `[C, blocks, size]`; a clip shorter than one is filled with silence."""
    size, step = round(BLOCK_SECONDS * sample_rate), max(1, round(STEP_SECONDS * sample_rate))
    padded = np.pad(sound, ((0, 0), (0, max(0, size - sound.shape[1]))))
    return np.lib.stride_tricks.sliding_window_view(padded, size, axis=1)[:, ::step]


def _k_weighting(frequencies: NDArray[Any]) -> NDArray[np.float64]:
    """Return the gains of the shelf and the high-pass of BS.1770, from their coefficients at 48 kHz."""
    z = np.exp(-2j * np.pi * np.minimum(frequencies, 24_000.0) / 48_000.0)
    shelf = (1.53512485958697 - 2.69169618940638 * z + 1.19839281085285 * z**2) / (
        1.0 - 1.69065929318241 * z + 0.73248077421585 * z**2
    )
    high_pass = (1.0 - 2.0 * z + z**2) / (1.0 - 1.99004745483398 * z + 0.99007225036621 * z**2)
    return np.asarray(np.abs(shelf * high_pass))


def silent_share(sound: NDArray[np.float64], sample_rate: int) -> float:
    """Return the share of blocks without sound."""
    power = np.square(_blocks(sound, sample_rate)).mean(axis=(0, 2))
    return float(np.mean(power < 10.0 ** (SILENT_DB / 10.0)))


def clipped_share(sound: NDArray[np.float64]) -> float:
    """Return the share of samples that are in runs at full scale."""
    if not sound.size:
        return 0.0
    full = (np.abs(sound) >= FULL_SCALE).astype(np.int64)
    run = np.lib.stride_tricks.sliding_window_view(np.pad(full, ((0, 0), (1, 1))), _HEADROOM_RUN, axis=1).sum(axis=2)
    return float((run == _HEADROOM_RUN).mean())


def stereo_correlation(sound: NDArray[np.float64]) -> float | None:
    """Correlate the first two channels."""
    if len(sound) < 2:
        return None
    left, right = sound[0], sound[1]
    energy = float(np.square(left).sum() * np.square(right).sum())
    return None if energy == 0.0 else float((left * right).sum() / np.sqrt(energy))


def _is_odd_stereo(sound: NDArray[np.float64], correlation: float | None) -> bool:
    """One channel is silent and the other is not, or they cancel each other in mono."""
    if len(sound) < 2:
        return False
    heard = np.square(sound[:2]).sum(axis=1) > 0.0
    return bool(heard[0] != heard[1]) or (correlation is not None and correlation < OUT_OF_PHASE)
