"""Judging: `solfa.evaluate(...)`, measurements of audio, and statistics of encoded datasets."""

from typing import TYPE_CHECKING

from solfa.lazy_names import callable_package, lazy_names

if TYPE_CHECKING:
    from solfa.codecs.embedders.catalogue import load_embedder
    from solfa.codecs.embedders.protocol import Embedder, HearsText
    from solfa.evaluate.clip_faults import ClipFacts, clip_facts
    from solfa.evaluate.evaluation import ClipScore, Evaluation
    from solfa.evaluate.measures import Difference, Measure
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
            "solfa.codecs.embedders.catalogue": ["load_embedder"],
            "solfa.codecs.embedders.protocol": ["Embedder", "HearsText"],
            "solfa.evaluate.clip_faults": ["ClipFacts", "clip_facts"],
            "solfa.evaluate.evaluation": ["ClipScore", "Evaluation"],
            "solfa.evaluate.measures": ["Difference", "Measure"],
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

callable_package(__name__, "solfa.evaluate.judgement", "evaluate")

__all__ = [
    "ClipFacts",
    "ClipScore",
    "CodeStatistics",
    "Difference",
    "Embedder",
    "Evaluation",
    "HearsText",
    "LatentStatistics",
    "LengthHistogram",
    "Measure",
    "clip_facts",
    "code_statistics",
    "latent_statistics",
    "length_histogram",
    "load_embedder",
    "mel_distance_db",
    "signal_to_noise_db",
]
