"""The demo: a small synthesised collection, encoded, verified, decoded and shown on a page."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.demo.instruments import Sound, add_at, faded, hat, hertz, kick, master, pluck, snare, tone
    from solfa.demo.pieces import arpeggio, beat, choir, progression, silence, speech
    from solfa.demo.recordings import WRITTEN_AT
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.demo.instruments": [
                "Sound",
                "add_at",
                "faded",
                "hat",
                "hertz",
                "kick",
                "master",
                "pluck",
                "snare",
                "tone",
            ],
            "solfa.demo.pieces": ["arpeggio", "beat", "choir", "progression", "silence", "speech"],
            "solfa.demo.recordings": ["WRITTEN_AT"],
        },
    )

__all__ = [
    "WRITTEN_AT",
    "Sound",
    "add_at",
    "arpeggio",
    "beat",
    "choir",
    "faded",
    "hat",
    "hertz",
    "kick",
    "master",
    "pluck",
    "progression",
    "silence",
    "snare",
    "speech",
    "tone",
]
