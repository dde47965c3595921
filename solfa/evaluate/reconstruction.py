"""How close a decoded sound is to the original."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solfa.ops.mel_spectrogram import decibels, mel_spectrogram


def signal_to_noise_db(original: NDArray[Any], decoded: NDArray[Any]) -> float:
    """Compare the power of the original with that of the error; infinite if there is no error.

    Meaningful for codecs that keep the waveform; a neural codec can sound right and still score low.

    >>> import numpy as np
    >>> from solfa.evaluate import signal_to_noise_db
    >>> original = np.ones((1, 100), np.float32)
    >>> round(signal_to_noise_db(original, 0.9 * original), 3)
    20.0
    """
    signal = float(np.mean(np.square(original, dtype=np.float64)))
    noise = float(np.mean(np.square(original.astype(np.float64) - decoded)))
    if noise == 0.0:
        return float("inf")
    return float(10.0 * np.log10(signal / noise)) if signal > 0.0 else float("-inf")


def mel_distance_db(original: NDArray[Any], decoded: NDArray[Any], sample_rate: int, floor_db: float = -80.0) -> float:
    """Average the distance of two mel spectrograms in decibels over time, bands and channels `[C, N]`.

    >>> import solfa
    >>> from solfa.audio import read_audio
    >>> from solfa.evaluate import mel_distance_db
    >>> dataset = solfa.open_dataset("music.solfa")
    >>> codec = solfa.load_codec(dataset.info.codec)
    >>> original = read_audio("audio/voice/hello.wav", sample_rate=codec.sample_rate, num_channels=codec.num_channels)
    >>> mel_distance_db(original, codec.decode(dataset["voice/hello.wav"]).numpy(), codec.sample_rate) < 30
    True
    """
    distances = [
        np.abs(
            decibels(mel_spectrogram(one.astype(np.float32), sample_rate), floor_db)
            - decibels(mel_spectrogram(other.astype(np.float32), sample_rate), floor_db)
        ).mean()
        for one, other in zip(original, decoded, strict=True)
    ]
    return float(np.mean(distances))
