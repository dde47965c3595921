"""Write audio files that nobody ever sees half-written."""

import io
from pathlib import Path
from typing import Literal

import numpy as np
import soundfile

from solfa.audio.channels import Audio
from solfa.audio.wav_header import wav_header, wav_samples
from solfa.errors import ConfigError
from solfa.files.whole_files import replace_atomically

WavSubtype = Literal["FLOAT", "PCM_16"]
_BLOCK = 1 << 14
"""Samples per call: libvorbis keeps its input on the stack, and two minutes at once crash the process."""
_FORMATS = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG"}


def write_audio(path: str | Path, audio: Audio, sample_rate: int, *, wav_subtype: WavSubtype = "FLOAT") -> None:
    """Write `[C, N]` audio as WAV (float, or 16 bit), FLAC (24 bit) or Ogg Vorbis, as the extension says.

    >>> import numpy as np
    >>> from solfa.audio import probe_audio, write_audio
    >>> write_audio("silence.flac", np.zeros((2, 8_000), np.float32), sample_rate=8_000)
    >>> probe_audio("silence.flac").num_channels
    2
    """
    path = Path(path)
    extension = path.suffix.lower()
    if extension not in _FORMATS:
        raise ConfigError(f"{path.name}: expected one of {', '.join(_FORMATS)}, found {extension or 'no extension'!r}")
    if extension == ".wav" and wav_subtype == "FLOAT":
        replace_atomically(path, wav_header(sample_rate, *audio.shape) + wav_samples(audio))
        return
    subtype = {".wav": wav_subtype, ".flac": "PCM_24", ".ogg": "VORBIS"}[extension]
    content = io.BytesIO()
    options = {"format": _FORMATS[extension], "subtype": subtype}
    with soundfile.SoundFile(content, "w", sample_rate, len(audio), **options) as sound:
        for start in range(0, audio.shape[1], _BLOCK):
            sound.write(np.ascontiguousarray(audio[:, start : start + _BLOCK].T))
    replace_atomically(path, content.getvalue())
