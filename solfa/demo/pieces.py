"""What the demo's instruments play: a few bars for each, as functions of a sample rate and a generator.

A piece returns a mix `[C, N]`; notes are MIDI numbers and times are seconds.
"""

from collections.abc import Sequence

import numpy as np

from solfa.demo.instruments import Sound, add_at, hat, hertz, in_room, kick, pad, pluck, snare, voice


def silence(seconds: float, sample_rate: int, num_channels: int) -> Sound:
    """Return an empty mix.

    >>> from solfa.demo import silence
    >>> silence(1.5, sample_rate=8_000, num_channels=2).shape
    (2, 12000)
    """
    return np.zeros((num_channels, round(seconds * sample_rate)))


def arpeggio(
    chords: Sequence[Sequence[int]],
    seconds: float,
    sample_rate: int,
    num_channels: int,
    rng: np.random.Generator,
    *,
    beat_seconds: float = 0.25,
    softness: int = 3,
    beats_per_chord: int = 8,
) -> Sound:
    """Pluck chords note by note, up and down; the last second only rings out.

    >>> import numpy as np
    >>> from solfa.demo import arpeggio
    >>> chords = [[57, 60, 64], [53, 57, 60]]  # A minor, F major
    >>> mix = arpeggio(chords, 3.0, 8_000, 2, np.random.default_rng(0))
    >>> mix.shape, bool(abs(mix[:, -800:]).max() < abs(mix).max())
    ((2, 24000), True)
    """
    mix = silence(seconds, sample_rate, num_channels)
    for beat in range(max(1, int((seconds - 1.0) / beat_seconds))):
        chord = chords[beat // beats_per_chord % len(chords)]
        order = [*range(len(chord)), *range(len(chord) - 2, 0, -1)] or [0]
        note = chord[order[beat % beats_per_chord % len(order)]]
        ring = min(2.0, seconds - beat * beat_seconds)
        string = pluck(hertz(note), ring, sample_rate, rng, softness=softness)
        loudness = 1.0 if beat % beats_per_chord == 0 else 0.6 + 0.2 * rng.random()
        pan = (note - 60) / 30.0
        late = 0.012 * rng.random()  # nobody plays exactly on the beat
        add_at(mix, string, beat * beat_seconds + late, sample_rate, gain=loudness, pan=float(np.clip(pan, -0.7, 0.7)))
    return in_room(mix, sample_rate, rng)


def glissando(
    notes: Sequence[int], seconds: float, sample_rate: int, num_channels: int, rng: np.random.Generator
) -> Sound:
    """Sweep over the strings of a harp, low to high, and let them ring."""
    mix = silence(seconds, sample_rate, num_channels)
    step = 0.45 * seconds / len(notes)
    for number, note in enumerate(notes):
        string = pluck(hertz(note), seconds - number * step, sample_rate, rng, ring_seconds=4.0, softness=4)
        add_at(mix, string, number * step, sample_rate, gain=0.8, pan=1.4 * number / len(notes) - 0.7)
    return in_room(mix, sample_rate, rng, wet=0.25, seconds=1.6)


def progression(
    chords: Sequence[Sequence[int]],
    seconds: float,
    sample_rate: int,
    num_channels: int,
    rng: np.random.Generator,
    *,
    warmth: float = 1.6,
) -> Sound:
    """Hold chords one after the other, each slightly overlapping the next; the last second is reverberation.

    >>> import numpy as np
    >>> from solfa.demo import progression
    >>> progression([[57, 60, 64], [53, 57, 60]], 2.0, 8_000, 2, np.random.default_rng(0)).shape
    (2, 16000)
    """
    mix = silence(seconds, sample_rate, num_channels)
    each = (seconds - 1.0) / len(chords)
    for number, chord in enumerate(chords):
        for place, note in enumerate(chord):
            held = pad(hertz(note), each + 0.3, sample_rate, rng, warmth=warmth)
            pan = 1.2 * place / max(1, len(chord) - 1) - 0.6
            add_at(mix, held, number * each, sample_rate, gain=1.0 - 0.12 * place, pan=pan)
    return in_room(mix, sample_rate, rng, wet=0.2, seconds=1.5)


def beat(
    pattern: Sequence[str],
    beats_per_minute: float,
    seconds: float,
    sample_rate: int,
    num_channels: int,
    rng: np.random.Generator,
) -> Sound:
    """Play a bar of sixteenths again and again: `k` kick, `s` snare, `h` closed hat, `o` open hat, `.` rest.

    >>> import numpy as np
    >>> from solfa.demo import beat
    >>> bar = ["k...k...k...k...", "....s.......s...", "h.h.h.h.h.h.h.ho"]
    >>> beat(bar, 120, seconds=2.0, sample_rate=8_000, num_channels=1, rng=np.random.default_rng(0)).shape
    (1, 16000)
    """
    mix = silence(seconds, sample_rate, num_channels)
    step = 60.0 / beats_per_minute / 4.0
    for number in range(int(seconds / step)):
        for line in pattern:
            drum = line[number % len(line)]
            accent = 1.0 if number % 4 == 0 else 0.75 + 0.15 * rng.random()
            if drum == "k":
                add_at(mix, kick(sample_rate), number * step, sample_rate, gain=1.2)
            elif drum == "s":
                add_at(mix, snare(sample_rate, rng), number * step, sample_rate, gain=0.9, pan=-0.1)
            elif drum in "ho":
                sound = hat(sample_rate, rng, ring_seconds=0.03 if drum == "h" else 0.12)
                add_at(mix, sound, number * step, sample_rate, gain=0.5 * accent, pan=0.35)
    return in_room(mix, sample_rate, rng, wet=0.06, seconds=0.5)


def speech(syllables: str, notes: Sequence[float], seconds: float, sample_rate: int, rng: np.random.Generator) -> Sound:
    """Say something that has vowels, a melody and no meaning.

    >>> import numpy as np
    >>> from solfa.demo import speech
    >>> speech("ha e o", [50, 52, 48], 1.0, 8_000, np.random.default_rng(0)).shape
    (1, 8000)
    """
    mix = silence(seconds, sample_rate, num_channels=1)
    add_at(mix, voice(syllables.split(), notes, seconds - 0.2, sample_rate, rng), 0.05, sample_rate)
    return in_room(mix, sample_rate, rng, wet=0.06, seconds=0.4)


def choir(
    vowels: str,
    chords: Sequence[Sequence[int]],
    seconds: float,
    sample_rate: int,
    num_channels: int,
    rng: np.random.Generator,
) -> Sound:
    """Sing chords in parts, one singer per part, gliding from vowel to vowel; the last second is reverberation.

    >>> import numpy as np
    >>> from solfa.demo import choir
    >>> choir("a o", [[57, 60, 64], [53, 57, 60]], 2.0, 8_000, 2, np.random.default_rng(0)).shape
    (2, 16000)
    """
    mix = silence(seconds, sample_rate, num_channels)
    parts = list(zip(*chords, strict=True))
    for place, part in enumerate(parts):
        singer = voice(vowels.split(), part, seconds - 1.0, sample_rate, rng, articulation=0.25)
        add_at(mix, singer, 0.0, sample_rate, pan=1.4 * place / max(1, len(parts) - 1) - 0.7)
    return in_room(mix, sample_rate, rng, wet=0.35, seconds=1.8)
