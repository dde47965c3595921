"""Measurements of audio and of encoded datasets."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.evaluate.reconstruction import mel_distance_db, signal_to_noise_db
    from solfa.evaluate.statistics import (
        CodeStatistics,
        LatentStatistics,
        LengthHistogram,
        code_statistics,
        latent_statistics,
        length_histogram,
    )
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.evaluate.reconstruction": ["mel_distance_db", "signal_to_noise_db"],
            "solfa.evaluate.statistics": [
                "CodeStatistics",
                "LatentStatistics",
                "LengthHistogram",
                "code_statistics",
                "latent_statistics",
                "length_histogram",
            ],
        },
    )

__all__ = [
    "CodeStatistics",
    "LatentStatistics",
    "LengthHistogram",
    "code_statistics",
    "latent_statistics",
    "length_histogram",
    "mel_distance_db",
    "signal_to_noise_db",
]
