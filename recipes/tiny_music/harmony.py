"""Which chords: keys, progressions that begin at home and lead back to it, and voicings that move little.

A chord is a degree of the key (0 is the tonic). In minor the dominant has its leading note (G sharp in A minor), so
that the cadence is heard as one.
"""

from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np

SCALES = {"major": (0, 2, 4, 5, 7, 9, 11), "minor": (0, 2, 3, 5, 7, 8, 10)}
FOLLOWED_BY = {
    "major": {0: (3, 5, 4, 1, 2), 1: (4,), 2: (5, 3), 3: (4, 1, 0), 4: (5, 0), 5: (3, 1, 4)},
    "minor": {0: (3, 5, 6, 4), 2: (5, 3), 3: (4, 0, 6), 4: (5, 0), 5: (3, 2, 6, 4), 6: (2, 4)},
}
"""Which degrees may follow each."""
LEADS_HOME = {"major": (4, 4, 4, 3), "minor": (4, 4, 4, 6)}
"""What comes before the last tonic; the dominant most often."""


@cache
def progressions(mode: str, num_chords: int, last: int) -> tuple[tuple[int, ...], ...]:
    """List all ways from the tonic to `last` in `num_chords` chords, without a chord twice in a row."""
    paths: list[tuple[int, ...]] = [(0,)]
    for _ in range(num_chords - 1):
        paths = [(*path, chord) for path in paths for chord in FOLLOWED_BY[mode][path[-1]]]
    return tuple(path for path in paths if path[-1] == last and path[1:].count(0) <= 1)


def draw_progression(rng: np.random.Generator, mode: str, num_chords: int) -> tuple[int, ...]:
    """Draw chords that begin with the tonic and want to go back to it."""
    if num_chords == 1:
        return (int(rng.choice(LEADS_HOME[mode])),)
    found: tuple[tuple[int, ...], ...] = ()
    while not found:
        found = progressions(mode, num_chords, int(rng.choice(LEADS_HOME[mode])))
    return found[int(rng.integers(len(found)))]


def pitch_classes(tonic: int, mode: str, degree: int) -> tuple[int, int, int]:
    """Spell a triad as pitch classes, the root first."""
    scale = SCALES[mode]
    steps = [scale[(degree + third) % 7] for third in (0, 2, 4)]
    if mode == "minor" and degree == 4:
        steps[1] += 1
    root, third, fifth = ((tonic + step) % 12 for step in steps)
    return root, third, fifth


def nearest_note(pitch_class: int, around: int) -> int:
    """Find the note of a pitch class that is closest to another note."""
    return around + (pitch_class - around + 6) % 12 - 6


def voicings(chord: Sequence[int], lowest: int, highest: int) -> list[tuple[int, ...]]:
    """List close positions of a triad in a register, each an octave wide at most."""
    found = []
    for bottom in range(lowest, highest + 1):
        if bottom % 12 in chord:
            above = sorted(bottom + (pitch_class - bottom) % 12 for pitch_class in chord)
            if above[-1] <= highest:
                found.append(tuple(above))
    return found


def lead_voices(chords: Sequence[Sequence[int]], lowest: int, highest: int, middle: int) -> list[tuple[int, ...]]:
    """Voice chords one after the other: each voice goes to a near note, and the whole stays near the middle."""
    voiced: list[tuple[int, ...]] = []
    for chord in chords:
        before = voiced[-1] if voiced else None

        def cost(voicing: tuple[int, ...], before: tuple[int, ...] | None = before) -> tuple[float, tuple[int, ...]]:
            away = abs(sum(voicing) / len(voicing) - middle)
            moved = 0 if before is None else sum(abs(a - b) for a, b in zip(voicing, before, strict=True))
            return moved + 0.5 * away, voicing

        voiced.append(min(voicings(chord, lowest, highest), key=cost))
    return voiced


def scale_notes(tonic: int, mode: str, lowest: int, highest: int, leading: bool) -> list[int]:
    """List the notes of a key in a register; `leading` raises the seventh of minor, as over its dominant."""
    classes = {(tonic + step + (1 if leading and mode == "minor" and step == 10 else 0)) % 12 for step in SCALES[mode]}
    return [note for note in range(lowest, highest + 1) if note % 12 in classes]


def all_keys() -> list[tuple[int, str]]:
    """List the 24 keys."""
    return list(product(range(12), SCALES))
