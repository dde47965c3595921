"""Audio inside a page: an excerpt as lossless FLAC in a data URI, and a description of its levels."""

import base64
import io
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from solfa.spelling import signed_db
from solfa.ui.html.report_data import Sound


def data_uri(content: bytes, media_type: str) -> str:
    """Encode a small file as a data URI."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode('ascii')}"


def excerpt(sound: Sound, seconds: float) -> Sound:
    """Keep the start, at most `seconds` of it."""
    return Sound(sound.audio[:, : max(1, round(seconds * sound.sample_rate))], sound.sample_rate)


def flac(sound: Sound) -> bytes:
    """Encode as 16-bit FLAC, which every browser plays and which adds no artefacts of its own.

    More than two channels are averaged to one, NaN becomes silence, and samples beyond full scale are clipped.
    """
    audio = np.nan_to_num(sound.audio.astype(np.float32), nan=0.0, posinf=1.0, neginf=-1.0)
    playable = audio if len(audio) <= 2 else audio.mean(axis=0, keepdims=True)
    file = io.BytesIO()
    soundfile.write(file, np.clip(playable, -1.0, 1.0).T, sound.sample_rate, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def levels(audio: NDArray[Any]) -> str:
    """Describe the peak and loudness of `[C, N]`, and anything wrong with it."""
    finite = np.isfinite(audio)
    values = np.where(finite, audio, 0.0).astype(np.float64)
    peak, power = float(np.abs(values).max(initial=0.0)), float(np.mean(values**2)) if values.size else 0.0
    words = [f"peak {_db(peak)}", f"RMS {_db(power**0.5)}"]
    if peak > 1.0:
        words.append("clipped in the player")
    if not finite.all():
        words.append(f"{int((~finite).sum()):,} samples are not numbers")
    return " · ".join(words)


def _db(amplitude: float) -> str:
    return signed_db(20.0 * float(np.log10(amplitude))) if amplitude > 0 else signed_db(float("-inf"))
