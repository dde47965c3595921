"""Synthesised sound for training the built-in codec: what the collected recordings lack.

A clip is ten seconds of mono: sounds of one family after the other with silence between (sweeps, pure tones, bells,
chords with vibrato, filtered noise, clicks, drums), or a piece that the instruments of `solfa.demo` play with other
notes. Families take turns, levels vary over 36 dB, and a clip is a function of the seed and its number alone.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from solfa.demo import (
    Sound,
    add_at,
    arpeggio,
    beat,
    choir,
    faded,
    hat,
    hertz,
    kick,
    master,
    pluck,
    progression,
    silence,
    snare,
    speech,
    tone,
)

SAMPLE_RATE = 24_000
CLIP_SECONDS = 10.0
QUIETEST_DB = -36.0
LOUDEST_DB = -0.5
CHORDS = ((0, 4, 7), (0, 3, 7), (0, 3, 6, 10), (0, 4, 7, 11), (0, 5, 7), (0, 2, 7, 14))
MELODIES = ((0, 5, 7, 3), (0, -2, 3, 5), (0, 7, 2, 9), (0, 1, -4, -5))
DRUM_LINES = (
    "k...k...k.k.k...",
    "k..k..k.k.......",
    "....s.......s..s",
    "..s...s...s...s.",
    "h.h.h.h.h.h.h.o.",
    "hhhhhhhohhhhhhho",
)
SYLLABLES = ("a", "e", "i", "o", "u", "sa", "se", "si", "so", "su")

Sounding = Callable[[float, np.random.Generator], Sound]
Piece = Callable[[np.random.Generator], Sound]


def synthesised_clip(seed: int, number: int) -> NDArray[np.float32]:
    """Synthesise clip `number`, `[1, N]` within [-1, 1]: even numbers are sequences of sounds, odd ones pieces."""
    rng = np.random.default_rng([seed, number])
    turn = number // 2
    mix = PIECES[turn % len(PIECES)](rng) if number % 2 else sequence(SOUNDINGS[turn % len(SOUNDINGS)], rng)
    return master(mix, SAMPLE_RATE, peak=level(rng))


def level(rng: np.random.Generator) -> float:
    """Draw a peak between the quietest and the loudest, even in decibels."""
    return float(10.0 ** (rng.uniform(QUIETEST_DB, LOUDEST_DB) / 20.0))


def sequence(sounding: Sounding, rng: np.random.Generator) -> Sound:
    """Play sounds of one family, each at its own loudness, some overlapping and most with silence between."""
    mix = silence(CLIP_SECONDS, SAMPLE_RATE, num_channels=1)
    start = float(rng.uniform(0.0, 0.5))
    while start < CLIP_SECONDS:
        seconds = float(rng.uniform(0.1, 2.5))
        sound = sounding(seconds, rng)
        gain = 10.0 ** (rng.uniform(-20.0, 0.0) / 20.0) / max(float(np.abs(sound).max()), 1e-9)
        add_at(mix, sound, start, SAMPLE_RATE, gain=gain)
        start += seconds * float(rng.uniform(0.5, 1.5))
    return mix


def sweep(seconds: float, rng: np.random.Generator) -> Sound:
    """Sweep a sine, or a tone with harmonics, between two frequencies, evenly in octaves."""
    low, high = hertz(rng.uniform(20.0, 60.0)), hertz(rng.uniform(80.0, 123.0))
    first, last = (low, high) if rng.random() < 0.5 else (high, low)
    frequency = np.exp(np.linspace(np.log(first), np.log(last), num_samples(seconds)))
    harmonics = [1.0] if rng.random() < 0.7 else harmonics_below_nyquist(high, 1.5)
    return ends_soft(tone(frequency, len(frequency), SAMPLE_RATE, harmonics))


def pure_tone(seconds: float, rng: np.random.Generator) -> Sound:
    """Hold a sine of any frequency up to 11 kHz, steady or trembling."""
    time = seconds_of(seconds)
    depth = rng.choice([0.0, 0.5, 0.9])
    tremor = 1.0 - depth * (0.5 + 0.5 * np.sin(2.0 * np.pi * rng.uniform(2.0, 12.0) * time))
    frequency = np.exp(rng.uniform(np.log(30.0), np.log(11_000.0)))
    return ends_soft(np.sin(2.0 * np.pi * frequency * time + rng.uniform(0.0, 2.0 * np.pi)) * tremor)


def bell(seconds: float, rng: np.random.Generator) -> Sound:
    """Strike something of metal or wood: partials in no harmonic relation, the higher the sooner gone."""
    time = seconds_of(seconds)
    lowest = hertz(rng.uniform(40.0, 96.0))
    sound = np.zeros(len(time))
    for ratio in np.cumprod(rng.uniform(1.1, 1.9, rng.integers(3, 12))):
        if lowest * ratio < 0.48 * SAMPLE_RATE:
            decay = np.exp(-time * rng.uniform(2.0, 8.0) * ratio**0.7 / seconds)
            sound += rng.uniform(0.2, 1.0) * decay * np.sin(2.0 * np.pi * lowest * ratio * time)
    return faded(sound, SAMPLE_RATE, in_seconds=float(rng.choice([0.0005, 0.005])), out_seconds=0.02)


def chord(seconds: float, rng: np.random.Generator) -> Sound:
    """Hold or pluck a chord: bright or dark voices with vibrato, and an attack from instant to slow."""
    root, darkness = rng.uniform(36.0, 76.0), rng.uniform(0.5, 2.5)
    time = seconds_of(seconds)
    vibrato = rng.uniform(0.0, 0.6) * np.sin(2.0 * np.pi * rng.uniform(3.0, 7.0) * time)
    sound = np.zeros(len(time))
    for interval in CHORDS[rng.integers(len(CHORDS))]:
        if rng.random() < 0.3:
            sound += pluck(hertz(root + interval), seconds, SAMPLE_RATE, rng)
        else:
            frequency = 440.0 * 2.0 ** ((root + interval + vibrato - 69.0) / 12.0)
            strengths = harmonics_below_nyquist(float(frequency.max()), darkness)
            sound += tone(frequency, len(time), SAMPLE_RATE, strengths, phase=rng.random())
    attack = float(rng.choice([0.001, 0.01, 0.1]))
    return faded(sound, SAMPLE_RATE, in_seconds=attack, out_seconds=seconds * float(rng.uniform(0.1, 0.8)))


def noise_burst(seconds: float, rng: np.random.Generator) -> Sound:
    """Let noise through a band between two frequencies, white to brown within it, sudden or swelling."""
    size = num_samples(seconds)
    frequency = np.fft.rfftfreq(size, 1.0 / SAMPLE_RATE)
    low, high = np.sort(np.exp(rng.uniform(np.log(40.0), np.log(12_000.0), 2)))
    band = 1.0 / (1.0 + (low / np.maximum(frequency, 1.0)) ** 6) / (1.0 + (frequency / (1.3 * high)) ** 6)
    spectrum = np.fft.rfft(rng.standard_normal(size)) * band * np.maximum(frequency, 20.0) ** -rng.uniform(0.0, 1.0)
    decay = np.exp(-seconds_of(seconds) * rng.choice([0.0, 3.0, 15.0]) / seconds)
    attack = float(rng.choice([0.001, 0.02, 0.2]))
    return faded(np.fft.irfft(spectrum, size) * decay, SAMPLE_RATE, in_seconds=attack, out_seconds=0.02)


def clicks(seconds: float, rng: np.random.Generator) -> Sound:
    """Click once, irregularly, or so fast and regularly that it buzzes."""
    sound = np.zeros(num_samples(seconds))
    rate = float(np.exp(rng.uniform(np.log(1.0), np.log(200.0))))
    regular = np.arange(0.0, seconds, 1.0 / rate)
    times = regular if rng.random() < 0.5 else rng.uniform(0.0, seconds, len(regular))
    width = int(rng.integers(1, 24))
    click = rng.standard_normal(width) * np.exp(-np.arange(width) / (1.0 + width / 4.0))
    for start in (times * SAMPLE_RATE).astype(np.int64):
        sound[start : start + width] += click[: len(sound) - start]
    return sound


def drums(seconds: float, rng: np.random.Generator) -> Sound:
    """Strike a kick, a snare, a hat or a tom of any pitch, two to twelve times a second."""
    mix = silence(seconds, SAMPLE_RATE, num_channels=1)
    tom_hz, step = hertz(rng.uniform(33.0, 64.0)), float(rng.uniform(0.08, 0.5))
    time = seconds_of(0.5)
    turns = np.cumsum(tom_hz * (1.0 + 0.5 * np.exp(-time / 0.05))) / SAMPLE_RATE
    tom = ends_soft(np.sin(2.0 * np.pi * turns) * np.exp(-time / 0.1))
    for start in np.arange(0.0, seconds, step):
        ring = float(rng.uniform(0.02, 0.2))
        hits = (kick(SAMPLE_RATE), snare(SAMPLE_RATE, rng), hat(SAMPLE_RATE, rng, ring_seconds=ring), tom)
        add_at(mix, hits[rng.integers(len(hits))], float(start), SAMPLE_RATE, gain=float(rng.uniform(0.3, 1.0)))
    return np.asarray(mix[0], np.float64)


def plucked_piece(rng: np.random.Generator) -> Sound:
    """Pluck an arpeggio over four chords."""
    pace = float(rng.uniform(0.1, 0.4))
    softness = int(rng.integers(1, 6))
    chords = draw_chords(rng, 4)
    return arpeggio(chords, CLIP_SECONDS, SAMPLE_RATE, 1, rng, beat_seconds=pace, softness=softness)


def held_piece(rng: np.random.Generator) -> Sound:
    """Hold a progression of chords."""
    return progression(draw_chords(rng, 4), CLIP_SECONDS, SAMPLE_RATE, 1, rng, warmth=float(rng.uniform(0.8, 2.2)))


def drummed_piece(rng: np.random.Generator) -> Sound:
    """Play a bar of drums again and again, sometimes under an arpeggio."""
    lines = [DRUM_LINES[2 * part + rng.integers(2)] for part in range(3)]
    mix = beat(lines, float(rng.uniform(70.0, 170.0)), CLIP_SECONDS, SAMPLE_RATE, 1, rng)
    return mix + float(rng.choice([0.0, 0.7])) * plucked_piece(rng)


def spoken_piece(rng: np.random.Generator) -> Sound:
    """Say syllables without meaning, in a voice from low to high."""
    syllables = [SYLLABLES[choice] for choice in rng.integers(len(SYLLABLES), size=rng.integers(20, 50))]
    notes = rng.uniform(38.0, 60.0) + np.cumsum(rng.uniform(-1.0, 1.0, len(syllables)))
    return speech(" ".join(syllables), list(np.clip(notes, 36.0, 66.0)), CLIP_SECONDS, SAMPLE_RATE, rng)


def sung_piece(rng: np.random.Generator) -> Sound:
    """Sing four chords in three parts."""
    vowels = [SYLLABLES[choice] for choice in rng.integers(5, size=4)]
    chords = [notes[:3] for notes in draw_chords(rng, 4)]
    return choir(" ".join(vowels), chords, CLIP_SECONDS, SAMPLE_RATE, 1, rng)


def draw_chords(rng: np.random.Generator, count: int) -> list[list[int]]:
    """Draw chords on the notes of a short melody."""
    root, melody = int(rng.integers(45, 64)), MELODIES[rng.integers(len(MELODIES))]
    return [
        [root + melody[place % len(melody)] + interval for interval in CHORDS[rng.integers(len(CHORDS))]]
        for place in range(count)
    ]


def num_samples(seconds: float) -> int:
    """Count the samples of a sound."""
    return round(seconds * SAMPLE_RATE)


def seconds_of(seconds: float) -> Sound:
    """Give the time of every sample of a sound."""
    return np.asarray(np.arange(num_samples(seconds)) / SAMPLE_RATE, np.float64)


def harmonics_below_nyquist(highest_hz: float, darkness: float) -> Sequence[float]:
    """Give the strengths of up to forty harmonics, those that the sample rate has room for."""
    count = max(1, min(40, int(0.48 * SAMPLE_RATE / highest_hz)))
    return [number**-darkness for number in range(1, count + 1)]


def ends_soft(sound: Sound) -> Sound:
    """Take the click from both ends."""
    return faded(sound, SAMPLE_RATE, in_seconds=0.005, out_seconds=0.02)


SOUNDINGS: tuple[Sounding, ...] = (sweep, pure_tone, bell, chord, noise_burst, clicks, drums)
PIECES: tuple[Piece, ...] = (plucked_piece, held_piece, drummed_piece, spoken_piece, sung_piece)
