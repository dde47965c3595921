"""What a caption says of a piece, in many wordings, and nothing that is not so.

A caption always names the instrument. Key and tempo are left out now and then in what is trained on, so that a text may
leave them out; a held-out caption has both, because they are judged.
"""

from collections.abc import Sequence

import numpy as np
from spec import Spec, Split

SHARPS = ("C", "C sharp", "D", "D sharp", "E", "F", "F sharp", "G", "G sharp", "A", "A sharp", "B")
FLATS = ("C", "D flat", "D", "E flat", "E", "F", "G flat", "G", "A flat", "A", "B flat", "B")
SLOW, FAST = 88, 112
"""At most and at least so many beats per minute."""
SPARSE, BUSY = ("sparse", "calm"), ("busy", "lively")
PLAYED = {
    "chords": ("chords", "chords", "block chords"),
    "arpeggio": ("arpeggios", "arpeggio", "broken chords"),
    "melody": ("melody", "tune", "melody"),
}


def word_piece(spec: Spec, rng: np.random.Generator, split: Split) -> str:
    """Word a piece in one of many ways."""
    whole = split == "held-out"
    key = "" if spec.is_drums or (not whole and rng.random() < 0.1) else spell_key(spec, rng)
    tempo = "" if not whole and rng.random() < 0.1 else _tempo(spec, rng)
    adjectives = _adjectives(spec, rng, tempo_is_told=bool(tempo))
    return _arranged(rng, adjectives, _what(spec, rng), key, tempo)


def spell_key(spec: Spec, rng: np.random.Generator) -> str:
    """Name the key, the black ones in one of three ways: C sharp, C# or D flat."""
    names = (SHARPS, FLATS)[int(rng.integers(2))]
    name = names[spec.tonic]
    if rng.random() < 0.25:
        name = name.replace(" sharp", "#")
    return f"{name} {spec.mode}"


def _tempo(spec: Spec, rng: np.random.Generator) -> str:
    unit = ("bpm", "bpm", "bpm", "beats per minute")[int(rng.integers(4))]
    return f"{spec.bpm} {unit}"


def _adjectives(spec: Spec, rng: np.random.Generator, *, tempo_is_told: bool) -> list[str]:
    pace = "slow" if spec.bpm <= SLOW else "fast" if spec.bpm >= FAST else "moderate"
    words = [pace] if rng.random() < (0.5 if tempo_is_told else 0.8) else []
    chosen = {"sparse": SPARSE, "busy": BUSY}.get(spec.density, ())
    if chosen and rng.random() < 0.7:
        words.append(_one(rng, chosen))
    return [words[place] for place in rng.permutation(len(words))]


def _what(spec: Spec, rng: np.random.Generator) -> str:
    waltz = spec.beats_per_bar == 3
    if spec.is_drums:
        return _one(rng, (f"{spec.pattern} drums", f"{spec.pattern} beat on drums", f"drums, {spec.pattern} beat"))
    played = _one(rng, PLAYED[spec.pattern])
    name = spec.instrument.name
    told = _one(rng, (f"{name} {played}", f"{name} {played}", f"{played} on {name}", f"{name}, {played}"))
    return f"{told}, waltz" if waltz else told


def _arranged(rng: np.random.Generator, adjectives: list[str], what: str, key: str, tempo: str) -> str:
    """Put the parts together: as a phrase, as a list in any order, or as a phrase that begins with an article."""
    together = " ".join([*adjectives, what])
    style = int(rng.integers(4))
    if style == 0:
        return _joined(", ", [f"{together} in {key}" if key else together, tempo])
    if style == 1:
        return _joined(" ", [together, f"in {key}" if key else "", f"at {tempo}" if tempo else ""])
    if style == 2:
        parts = [part for part in (*adjectives, what, key, tempo) if part]
        return ", ".join(parts[place] for place in rng.permutation(len(parts)))
    opening = f"a {' '.join(adjectives)} piece" if adjectives else "a piece"
    return f"{_joined(' ', [opening, f'in {key}' if key else '', f'at {tempo}' if tempo else ''])}: {what}"


def _joined(between: str, parts: Sequence[str]) -> str:
    return between.join(part for part in parts if part)


def _one(rng: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]
