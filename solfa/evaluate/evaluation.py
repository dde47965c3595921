"""The result of an evaluation: measures of the whole set, facts of each clip, what fell out, and how it was made."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solfa.evaluate.embedding_cache import FellOut
from solfa.evaluate.measures import Difference, Measure, finite
from solfa.files.whole_files import replace_atomically
from solfa.version import __version__

JSON_NAME = "evaluation.json"


@dataclass(frozen=True)
class ClipScore:
    """What is known of one clip."""

    id: str
    scores: Mapping[str, float]
    """By measure; NaN where it does not apply."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Seconds, loudness, faults, ... (`ClipFacts`), and of a model's clip the `nearest` training clip."""
    caption: str | None = None
    pair: str | None = None
    """The reference recording that it belongs to."""

    @property
    def is_memorised(self) -> bool:
        """Whether the clip is known to be a copy of one that the model was trained on."""
        return bool((self.facts.get("nearest") or {}).get("is_copy"))

    def as_dict(self) -> dict[str, Any]:
        """Spell it in plain values."""
        scores = {name: finite(value) for name, value in self.scores.items()}
        return {"id": self.id, "pair": self.pair, "caption": self.caption, **scores, **self.facts}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How good a set of clips is, in numbers that can be repeated.

    >>> import solfa
    >>> report = solfa.evaluate("audio/", reference="audio/", embedder="mel")
    >>> [measure.name for measure in report.measures], report["mel"].value
    (['kad', 'si_sdr', 'mel'], 0.0)
    >>> [fallen.id for fallen in report.fell_out]
    ['broken.wav']
    """

    name: str
    reference: str
    embedder: str
    embedder_fingerprint: str
    measures: tuple[Measure, ...]
    clips: tuple[ClipScore, ...]
    fell_out: tuple[FellOut, ...]
    """Recordings of either set that could not be judged."""
    ranked_by: str
    """The measure that says which clips are best."""
    seed: int
    against: str | None = None
    differences: tuple[Difference, ...] = ()
    """How much the set exceeds the one it was compared with."""
    bits: Mapping[str, Any] = field(default_factory=dict)
    """Of a model: bits per second of audio, and the distortion of its codec."""
    sounds: Path | str | None = None
    """Where the clips can be read; None if only their embeddings are known."""
    reference_sounds: Path | str | None = None

    def __getitem__(self, name: str) -> Measure:
        for measure in self.measures:
            if measure.name == name:
                return measure
        raise KeyError(f"{name}: not measured; found {', '.join(measure.name for measure in self.measures)}")

    @property
    def faults(self) -> dict[str, int]:
        """Count the clips with each fault."""
        counts: dict[str, int] = {}
        for clip in self.clips:
            for fault in clip.facts.get("faults", ()):
                counts[fault] = counts.get(fault, 0) + 1
        return counts

    @property
    def num_memorised(self) -> int:
        """Count the clips that are copies of clips that the model was trained on."""
        return sum(clip.is_memorised for clip in self.clips)

    def ranked(self) -> list[ClipScore]:
        """List the clips that have the measure they are ranked by, the best first."""
        known = [clip for clip in self.clips if finite(clip.scores.get(self.ranked_by)) is not None]
        is_high = self.ranked_by in ("closeness", "si_sdr", "visqol", "pesq", "stoi", "clap")
        return sorted(known, key=lambda clip: (clip.scores[self.ranked_by] * (-1 if is_high else 1), clip.id))

    def as_dict(self) -> dict[str, Any]:
        """Spell everything in plain values; equal inputs give equal values."""
        return {
            "solfa": __version__,
            "set": self.name,
            "reference": self.reference,
            "embedder": {"name": self.embedder, "fingerprint": self.embedder_fingerprint},
            "seed": self.seed,
            "measures": [measure.as_dict() for measure in self.measures],
            "against": self.against,
            "differences": [difference.as_dict() for difference in self.differences],
            "bits": dict(self.bits),
            "faults": self.faults,
            "clips": [clip.as_dict() for clip in self.clips],
            "fell_out": [fallen._asdict() for fallen in self.fell_out],
        }

    def write_json(self, path: Path) -> None:
        """Write `as_dict` to a file, replacing an older one atomically."""
        content = json.dumps(self.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        replace_atomically(path, content.encode("utf-8", errors="backslashreplace"))
