"""Musical keys and their names in texts: C sharp minor, C# minor and D flat minor are one."""

import re
from typing import Literal, NamedTuple

SCALES = {"major": (0, 2, 4, 5, 7, 9, 11), "minor": (0, 2, 3, 5, 7, 8, 10)}
_LETTERS = {"c": 0, "d": 2, "e": 4, "f": 5, "g": 7, "a": 9, "b": 11}
_NAMES = ("C", "C#", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B")
_REST = r"(\s?#|♯|b\b|♭|[ -]sharp|[ -]flat)?\s?(major|minor|maj|min)\b"
# "a minor" may be an article: a small letter names a key only where something says so, or where there is nothing else.
_KEYS_IN_TEXT = (
    re.compile(rf"\b([A-G])(?i:{_REST})"),
    re.compile(rf"\b(?:in|of|key:)\s*([a-g]){_REST}", re.IGNORECASE),
    re.compile(rf"\A\s*([a-g]){_REST}\s*\Z", re.IGNORECASE),
)


class KeyName(NamedTuple):
    """A key."""

    tonic: int
    """Semitones above C."""
    mode: Literal["major", "minor"]

    def __str__(self) -> str:
        return f"{_NAMES[self.tonic]} {self.mode}"


KEYS = tuple(KeyName(tonic, mode) for mode in ("major", "minor") for tonic in range(12))
"""All 24, in the order of their numbers."""


def neighbours(key: KeyName) -> tuple[KeyName, KeyName, KeyName, KeyName]:
    """List the keys that sound most like one: a fifth above and below, relative and parallel.

    >>> from solfa.models.conditioners.key_names import KeyName, neighbours
    >>> [str(near) for near in neighbours(KeyName(9, "minor"))]
    ['E minor', 'D minor', 'C major', 'A major']
    """
    other: Literal["major", "minor"] = "minor" if key.mode == "major" else "major"
    relative = KeyName((key.tonic + (9 if key.mode == "major" else 3)) % 12, other)
    above, below = (KeyName((key.tonic + steps) % 12, key.mode) for steps in (7, 5))
    return above, below, relative, KeyName(key.tonic, other)


def key_of(text: str) -> KeyName | None:
    """Find the first key that a text names; None if there is none.

    >>> from solfa.models.conditioners.key_names import key_of
    >>> str(key_of("slow piano chords in D flat minor")), str(key_of("Bb major")), key_of("a minor change")
    ('C# minor', 'Bb major', None)
    """
    found = next((found for pattern in _KEYS_IN_TEXT if (found := pattern.search(text)) is not None), None)
    if found is None:
        return None
    letter, sign, mode = found.groups()
    moved = 0 if sign is None else 1 if sign.strip(" -").lower() in ("#", "♯", "sharp") else -1
    return KeyName((_LETTERS[letter.lower()] + moved) % 12, "major" if mode.lower().startswith("maj") else "minor")
