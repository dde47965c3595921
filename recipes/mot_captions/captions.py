"""Words for sounds: only what the recordings and their packages say, in two or three wordings each.

Which wording a clip gets depends on the clip's name alone (`pick`), so a caption never changes between two runs.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple


class Family(NamedTuple):
    """What the first word of a Sonic Pi sample's name means."""

    kind: str
    label: str


SAMPLE_FAMILIES = {
    "ambi": Family("ambient", "ambient sound"),
    "bass": Family("bass", "bass sample"),
    "bd": Family("percussion", "bass drum"),
    "drum": Family("percussion", "drum sample"),
    "elec": Family("effect", "electric sound"),
    "glitch": Family("effect", "glitch sound"),
    "guit": Family("guitar", "guitar sample"),
    "loop": Family("loop", "loop"),
    "mehackit": Family("effect", "sound effect"),
    "misc": Family("effect", "sound effect"),
    "perc": Family("percussion", "percussion"),
    "sn": Family("percussion", "snare drum"),
    "tabla": Family("percussion", "tabla"),
    "vinyl": Family("effect", "vinyl record"),
}
_SPELLED_OUT = {"em9": "E minor 9", "filt": "filtered", "hi": "high", "lo": "low", "perc": "percussion"}
_NUMBERED = re.compile(r"(?<=[a-z])\d+$")


def pick(wordings: Sequence[str], key: str) -> str:
    """Choose a wording by the SHA-256 of the key."""
    return wordings[int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) % len(wordings)]


def capitalised(text: str) -> str:
    """Begin with a capital, and leave the other letters as they are."""
    return text[:1].upper() + text[1:]


def speech_wordings(voice: str, language: str, text: str | None) -> tuple[str, ...]:
    """Word a recording of one voice, `man` or `woman`; without a text it is not known which words the clip holds."""
    if text is None:
        return (
            f"A {voice} speaks {language}",
            f"{language} speech, a {voice}'s voice",
            f"A {voice} reads aloud in {language}",
        )
    return (
        f'A {voice} speaks {language}: "{text}"',
        f'{language} speech, a {voice}\'s voice: "{text}"',
        f'A {voice} says in {language}: "{text}"',
    )


def music_wordings(style: str, title: str, artist: str, note: str = "") -> tuple[str, ...]:
    """Word a piece of music, with a note on its use if there is one; the last wording leaves the title out."""
    note = f", {note}" if note else ""
    return (
        f'{capitalised(style)}{note}: "{title}"',
        f'"{title}" by {artist}, {style}{note}',
        f"{capitalised(style)} by {artist}{note}",
    )


def sample_words(stem: str) -> str:
    """Read the name of a sample without its family: `drum_tom_hi_soft` is a `tom high soft`."""
    words = [
        word if word in _SPELLED_OUT else _NUMBERED.sub("", word) for word in stem.replace("-", "_").split("_")[1:]
    ]
    return " ".join(_SPELLED_OUT.get(word, word) for word in words)


def sample_wordings(label: str, words: str) -> tuple[str, ...]:
    """Word a sample or a sound effect."""
    return f"{capitalised(label)}: {words}", f"{capitalised(words)}, {label}"
