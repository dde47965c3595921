"""From a spec to notes: bars of chords, arpeggios or a melody, or of drums, and a last chord that ends the piece.

Times are counted in beats from the first bar line. Nothing is late or early.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from harmony import draw_progression, lead_voices, nearest_note, pitch_classes, scale_notes
from orchestra import BEATS, CLOSED, CRASH, DRUMS, FILL, KICK, OPEN, RIDE, Instrument
from spec import Spec

VELOCITY = 80
"""Of General MIDI, before accents."""


class Note(NamedTuple):
    """One note of one instrument."""

    instrument: Instrument
    key: int
    start: float
    length: float
    velocity: int


class Chord(NamedTuple):
    """A chord of the progression, voiced."""

    start: float
    length: float
    degree: int
    classes: tuple[int, int, int]
    keys: tuple[int, ...]

    @property
    def stop(self) -> float:
        return self.start + self.length


def compose(spec: Spec, rng: np.random.Generator) -> list[Note]:
    """Write the notes of a piece, in order of time."""
    if spec.is_drums:
        notes = _drums(spec)
    else:
        *chords, home = _chords(spec, rng)
        parts = {"chords": _block_chords, "arpeggio": _arpeggio, "melody": _melody}
        notes = parts[spec.pattern](spec, chords, rng) + _last_chord(spec, home)
    return sorted(notes, key=lambda note: (note.start, note.instrument.name, note.key))


def _chords(spec: Spec, rng: np.random.Generator) -> list[Chord]:
    """Draw and voice the chords, one or two per bar, and the tonic after the last bar line."""
    halved = spec.beats_per_bar == 4 and spec.num_bars <= 3 and rng.random() < 0.6
    num_chords = spec.num_bars * (2 if halved else 1)
    length = spec.beats_per_bar / (2 if halved else 1)
    degrees = [*draw_progression(rng, spec.mode, num_chords), 0]
    classes = [pitch_classes(spec.tonic, spec.mode, degree) for degree in degrees]
    player = spec.instrument
    voiced = lead_voices(classes, player.lowest, player.highest, player.middle)
    return [
        Chord(at * length, length, degree, triad, keys)
        for at, (degree, triad, keys) in enumerate(zip(degrees, classes, voiced, strict=True))
    ]


def _velocity(accent: float) -> int:
    """Turn an accent (1 is a strong beat) into a velocity."""
    return int(np.clip(VELOCITY + 24 * (accent - 0.75), 20, 124))


def _accent(spec: Spec, start: float) -> float:
    """Stress the beginning of a bar. All else is even: one note of one instrument should be few different sounds."""
    return 1.0 if start % spec.beats_per_bar == 0 else 0.75


def _block_chords(spec: Spec, chords: Sequence[Chord], rng: np.random.Generator) -> list[Note]:
    """Strike whole chords, the low hand on the first beat of each."""
    step = {"sparse": 2.0, "medium": 1.0, "busy": 0.5}[spec.density] if spec.beats_per_bar == 4 else 1.0
    player, notes = spec.instrument, []
    for chord in chords:
        for start in np.arange(chord.start, chord.stop, step):
            is_waltz_bass = spec.beats_per_bar == 3 and player.low_hand and start == chord.start
            if not is_waltz_bass:
                length = min(step, chord.stop - start) * min(player.legato, 1.0 if player.rings or step >= 1 else 0.85)
                velocity = _velocity(_accent(spec, start))
                notes += [Note(player, key, float(start), length, velocity) for key in chord.keys]
        notes += _low_hand(spec, chord)
    return notes


def _low_hand(spec: Spec, chord: Chord, softer: float = 0.0) -> list[Note]:
    """Play the root below the chord, if the instrument has a hand for it."""
    if not spec.instrument.low_hand:
        return []
    key = nearest_note(chord.classes[0], min(chord.keys) - 10)
    length = chord.length * spec.instrument.legato
    return [Note(spec.instrument, key, chord.start, length, _velocity(0.85 - softer))]


def _arpeggio(spec: Spec, chords: Sequence[Chord], rng: np.random.Generator) -> list[Note]:
    """Play the notes of each chord one after the other, in one order for the whole piece."""
    step = {"sparse": 1.0, "medium": 0.5, "busy": 0.25 if spec.bpm < 105 else 0.5}[spec.density]
    order = [(0, 1, 2, 3), (3, 2, 1, 0), (0, 2, 1, 2), (0, 1, 2, 3, 2, 1)][int(rng.integers(4))]
    player, notes = spec.instrument, []
    for chord in chords:
        keys = [*chord.keys, chord.keys[0] + 12]
        for count, start in enumerate(np.arange(chord.start, chord.stop, step)):
            ring = min(2.0, chord.stop - start) if player.rings else step
            velocity = _velocity(_accent(spec, start))
            notes.append(Note(player, keys[order[count % len(order)]], float(start), ring * player.legato, velocity))
        if player.rings:
            notes += _low_hand(spec, chord, softer=0.2)
    return notes


def _melody(spec: Spec, chords: Sequence[Chord], rng: np.random.Generator) -> list[Note]:
    """Sing a line: chord notes on strong beats, steps of the scale between, over soft roots if there is a low hand."""
    rhythms = {
        "sparse": [(1.0, 1.0), (2.0,)],
        "medium": [(1.0, 1.0), (1.0, 0.5, 0.5), (0.5, 0.5, 1.0)],
        "busy": [(0.5, 0.5, 0.5, 0.5), (0.5, 0.5, 1.0), (1.0, 0.5, 0.5)],
    }[spec.density]
    waltz = {"sparse": [(2.0, 1.0)], "medium": [(1.0, 1.0, 1.0), (2.0, 1.0)], "busy": [(1.0, 0.5, 0.5, 1.0)]}
    player, notes = spec.instrument, []
    key, motif = player.middle + int(rng.integers(-3, 8)), [int(rng.integers(8)) for _ in range(4)]
    for chord in chords:
        start, cell = chord.start, 0
        while start < chord.stop:
            choices = waltz[spec.density] if spec.beats_per_bar == 3 else rhythms
            # One motif for all bars: a tune repeats its rhythm.
            for length in choices[motif[cell % len(motif)] % len(choices)]:
                key = _next_key(spec, chord, key, start, rng)
                velocity = _velocity(_accent(spec, start) + 0.15)
                notes.append(Note(player, key, start, length * min(player.legato, 0.95), velocity))
                start += length
            cell += 1
        notes += _low_hand(spec, chord, softer=0.35)
    return notes


def _next_key(spec: Spec, chord: Chord, before: int, start: float, rng: np.random.Generator) -> int:
    """Choose the next note of a line, near the one before."""
    player = spec.instrument
    lowest, highest = player.middle - 7, player.highest
    scale = scale_notes(spec.tonic, spec.mode, lowest, highest, leading=chord.degree == 4)
    if start % 1 == 0 and (start == chord.start or rng.random() < 0.6):
        within = [key for key in scale if key % 12 in chord.classes and abs(key - before) <= 7]
        others = [key for key in within if key != before] or within or [nearest_note(chord.classes[0], player.middle)]
        nearness = np.array([1.0 / (1.0 + abs(key - before)) for key in others])
        return others[int(rng.choice(len(others), p=nearness / nearness.sum()))]
    place = int(np.argmin([abs(key - before) for key in scale]))
    return scale[int(np.clip(place + rng.choice([-1, 1, 1, -1, 2, -2]), 0, len(scale) - 1))]


def _last_chord(spec: Spec, home: Chord) -> list[Note]:
    """End on the tonic, held; a line ends on its root."""
    velocity, length = _velocity(0.95), 2.0 * spec.beats_per_bar
    if spec.pattern == "melody" and not spec.instrument.low_hand:
        return [
            Note(spec.instrument, nearest_note(spec.tonic, spec.instrument.middle + 3), home.start, length, velocity)
        ]
    notes = [Note(spec.instrument, key, home.start, length, velocity) for key in home.keys]
    return notes + [low._replace(length=length) for low in _low_hand(spec, home)]


def _drums(spec: Spec) -> list[Note]:
    """Repeat a bar of drums, end with a fill, and with kick and cymbal where others have their last chord."""
    notes = []
    for bar in range(spec.num_bars):
        fills = bar == spec.num_bars - 1 and spec.beats_per_bar == 4
        for key, places in BEATS[spec.beats_per_bar][spec.pattern].items():
            quiet = 0.35 if key in (CLOSED, OPEN, RIDE) else 0.0
            for place in places:
                if not (fills and place >= FILL[0][0]):
                    velocity = _velocity(_accent(spec, place) - quiet)
                    notes.append(_drum(key, bar * spec.beats_per_bar + place, velocity))
        if fills:
            notes += [_drum(key, bar * spec.beats_per_bar + place, _velocity(0.8)) for place, key in FILL]
    end = float(spec.num_bars * spec.beats_per_bar)
    return [*notes, *(_drum(key, end, _velocity(0.8)) for key in (KICK, CRASH))]


def _drum(key: int, start: float, velocity: int) -> Note:
    return Note(DRUMS, key, float(start), 0.25, velocity)
