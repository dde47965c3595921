"""Who plays: instruments of the General MIDI set in families, the registers they sound well in, and drum patterns.

Notes are MIDI numbers (60 is the C in the middle), programs are those of General MIDI counted from 0, and drums are the
keys of its percussion channel.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Instrument:
    """A program, what it is called, and where it plays."""

    name: str
    """As captions say it."""
    family: str
    program: int
    lowest: int
    highest: int
    """The register of chords, arpeggios and melodies."""
    rings: bool = False
    """Plucked or struck: notes may sound into the next ones."""
    low_hand: bool = False
    """Adds the root an octave below its chords, as a pianist's left hand does."""

    legato: float = 0.98
    """How much of its length a repeated note sounds; slow voices need a breath, or nobody hears the next begin."""

    @property
    def middle(self) -> int:
        return (self.lowest + self.highest) // 2


INSTRUMENTS = (
    Instrument("piano", "piano", 0, 55, 79, rings=True, low_hand=True),
    Instrument("electric piano", "piano", 4, 55, 77, rings=True, low_hand=True),
    Instrument("organ", "organ", 16, 53, 76, low_hand=True),
    Instrument("church organ", "organ", 19, 53, 77, low_hand=True),
    Instrument("nylon guitar", "guitar", 24, 50, 72, rings=True, low_hand=True),
    Instrument("steel guitar", "guitar", 25, 50, 74, rings=True, low_hand=True),
    Instrument("strings", "strings", 48, 53, 79, low_hand=True, legato=0.85),
    Instrument("violins", "strings", 40, 60, 84, legato=0.85),
    Instrument("brass", "brass", 61, 53, 75),
    Instrument("trumpet", "brass", 56, 58, 79),
    Instrument("flute", "woodwinds", 73, 64, 88),
    Instrument("clarinet", "woodwinds", 71, 55, 79),
    Instrument("vibraphone", "mallets", 11, 57, 81, rings=True),
    Instrument("marimba", "mallets", 12, 52, 79, rings=True),
    Instrument("synth lead", "synth", 81, 55, 77),
    Instrument("square synth", "synth", 80, 55, 77),
    Instrument("choir", "choir", 52, 53, 76, legato=0.75),
)
DRUMS = Instrument("drums", "drums", 0, 35, 81)
"""Compare with `==`: a piece that comes from another process has instruments of its own."""
FAMILIES = tuple(dict.fromkeys([*(instrument.family for instrument in INSTRUMENTS), DRUMS.family]))

KICK, SNARE, RIM, CLOSED, OPEN, CRASH, RIDE, TOM_HIGH, TOM_MID, TOM_LOW = 36, 38, 37, 42, 46, 49, 51, 50, 47, 43

BEATS: dict[int, dict[str, dict[int, tuple[float, ...]]]] = {
    4: {
        "rock": {KICK: (0, 2, 2.5), SNARE: (1, 3), CLOSED: (0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5)},
        "disco": {KICK: (0, 1, 2, 3), SNARE: (1, 3), OPEN: (0.5, 1.5, 2.5, 3.5)},
        "pop": {KICK: (0, 1.5, 2), SNARE: (1, 3), CLOSED: (0, 1, 2, 3)},
        "bossa": {KICK: (0, 1.5, 2, 3.5), RIM: (0, 1.5, 3), CLOSED: (0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5)},
    },
    3: {
        "waltz": {KICK: (0,), SNARE: (1, 2), CLOSED: (0, 1, 2)},
        "jazz waltz": {KICK: (0,), CLOSED: (1,), RIDE: (0, 1, 2, 2.5), RIM: (2,)},
    },
}
"""Beats per bar, style, and when each drum is struck in a bar, counted in beats."""

FILL = ((2.0, SNARE), (2.25, SNARE), (2.5, TOM_HIGH), (2.75, TOM_HIGH), (3.0, TOM_MID), (3.25, TOM_MID), (3.5, TOM_LOW))
"""The second half of the last bar of four, in a piece for drums alone."""
