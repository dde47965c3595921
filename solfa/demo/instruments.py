"""Small instruments in plain numpy: plucked strings, pads, drums, and a formant voice.

Every function is pure: randomness comes from the generator passed to it. Sounds are float64, `[N]` from an instrument
and `[C, N]` after mixing; levels are arbitrary until `master` sets the peak.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Sound = NDArray[np.float64]
"""One channel `[N]` or a mix `[C, N]`."""

VOWEL_FORMANTS_HZ = {
    "a": (730.0, 1090.0, 2440.0, 3400.0, 4500.0),
    "e": (530.0, 1840.0, 2480.0, 3500.0, 4500.0),
    "i": (290.0, 2200.0, 2950.0, 3600.0, 4600.0),
    "o": (500.0, 880.0, 2400.0, 3300.0, 4400.0),
    "u": (320.0, 800.0, 2250.0, 3200.0, 4400.0),
}
FORMANT_BANDWIDTHS_HZ = (70.0, 90.0, 120.0, 180.0, 250.0)

_TABLE_SIZE = 16_384  # one cycle of a tone; a power of two


def hertz(midi_note: float) -> float:
    """Convert a MIDI note (69 is the A of 440 Hz) to its frequency.

    >>> from solfa.demo import hertz
    >>> float(hertz(57))
    220.0
    """
    return float(440.0 * 2.0 ** ((midi_note - 69.0) / 12.0))


def pluck(
    frequency_hz: float,
    seconds: float,
    sample_rate: int,
    rng: np.random.Generator,
    *,
    ring_seconds: float = 3.0,
    softness: int = 3,
) -> Sound:
    """Pluck a string (Karplus & Strong 1983): noise in a loop one period long that loses its brightness.

    The loop filter has three taps, so its delay can be fractional and the string is in tune at any rate.
    `ring_seconds` is the time to fall by 60 dB; a larger `softness` is a rounder plectrum.

    >>> import numpy as np
    >>> from solfa.demo import hertz, pluck
    >>> string = pluck(hertz(57), 1.0, 8_000, np.random.default_rng(0))
    >>> int(np.abs(np.fft.rfft(string)).argmax()) % 220  # a harmonic of 220 Hz, in bins of 1 Hz
    0
    """
    period = sample_rate / frequency_hz
    whole = int(period - 0.5)
    fraction = period - 0.5 - whole
    gain = 10.0 ** (-3.0 * period / sample_rate / ring_seconds)
    taps = gain * 0.5 * np.array([1.0 - fraction, 1.0, fraction])
    lead = whole + 2
    string = np.zeros(lead + round(seconds * sample_rate))
    string[:lead] = _plectrum(lead, softness, rng)
    for start in range(lead, len(string), whole):
        stop = min(start + whole, len(string))
        string[start:stop] = np.convolve(string[start - whole - 2 : stop - whole], taps, "valid")
    return faded(string[lead:], sample_rate, in_seconds=0.002, out_seconds=0.05)


def _plectrum(num_samples: int, softness: int, rng: np.random.Generator) -> Sound:
    noise = rng.uniform(-1.0, 1.0, num_samples)
    for _ in range(softness):
        noise = 0.5 * (noise + np.roll(noise, 1))
    # Plucked at a fifth of its length, so every fifth harmonic is missing: it sounds less like a comb.
    noise = noise - np.roll(noise, num_samples // 5)
    return np.asarray((noise - noise.mean()) / np.abs(noise).max(), np.float64)


def tone(
    frequency_hz: float | Sound, num_samples: int, sample_rate: int, harmonics: Sequence[float], *, phase: float = 0.0
) -> Sound:
    """Play harmonics of the given strengths on a frequency (a number, or one value per sample).

    >>> import numpy as np
    >>> from solfa.demo import tone
    >>> sound = tone(100.0, 8_000, 8_000, harmonics=[1.0, 0.0, 0.5])
    >>> np.flatnonzero(np.abs(np.fft.rfft(sound)) > 100)  # the first harmonic, and the third
    array([100, 300])
    """
    spectrum = np.zeros(_TABLE_SIZE // 2 + 1, np.complex128)
    spectrum[1 : len(harmonics) + 1] = -0.5j * _TABLE_SIZE * np.asarray(harmonics)
    cycle = np.fft.irfft(spectrum, _TABLE_SIZE)
    if isinstance(frequency_hz, float):
        turns = np.arange(num_samples) * (frequency_hz / sample_rate)
    else:
        turns = np.cumsum(frequency_hz / sample_rate)
    # The nearest of 16,384 points is accurate to 80 dB; interpolating would take most of the demo's time.
    return np.asarray(cycle[((turns + phase) * _TABLE_SIZE).astype(np.int64) & (_TABLE_SIZE - 1)], np.float64)


def pad(
    frequency_hz: float, seconds: float, sample_rate: int, rng: np.random.Generator, *, warmth: float = 1.6
) -> Sound:
    """Hold a soft note: three detuned voices that swell and fade; a larger `warmth` is darker."""
    num_samples = round(seconds * sample_rate)
    highest = max(1, min(24, int(0.45 * sample_rate / frequency_hz)))
    harmonics = [number**-warmth for number in range(1, highest + 1)]
    note = np.zeros(num_samples)
    for cents in (-5.0, 0.0, 5.0):
        detuned = frequency_hz * 2.0 ** (cents / 1200.0)
        note += tone(detuned, num_samples, sample_rate, harmonics, phase=rng.random())
    return faded(note, sample_rate, in_seconds=min(0.35, seconds / 4), out_seconds=min(0.6, seconds / 3))


def kick(sample_rate: int) -> Sound:
    """Strike a bass drum: a sine that falls from 160 to 48 Hz.

    >>> from solfa.demo import kick
    >>> sound = kick(8_000)
    >>> len(sound) / 8_000, bool(abs(sound[:800]).max() > 10 * abs(sound[-800:]).max())
    (0.45, True)
    """
    time = np.arange(round(0.45 * sample_rate)) / sample_rate
    frequency = 48.0 + 112.0 * np.exp(-time / 0.03)
    body = np.sin(2.0 * np.pi * np.cumsum(frequency) / sample_rate) * np.exp(-time / 0.12)
    return faded(body, sample_rate, in_seconds=0.002, out_seconds=0.05)


def snare(sample_rate: int, rng: np.random.Generator) -> Sound:
    """Strike a snare drum: two skin modes and the rattle of the wires.

    >>> import numpy as np
    >>> from solfa.demo import snare
    >>> one, other = (snare(8_000, np.random.default_rng(seed)) for seed in (0, 1))
    >>> len(one) / 8_000, np.array_equal(one, other)  # no two strokes are the same
    (0.3, False)
    """
    time = np.arange(round(0.3 * sample_rate)) / sample_rate
    skin = (np.sin(2.0 * np.pi * 185.0 * time) + 0.6 * np.sin(2.0 * np.pi * 330.0 * time)) * np.exp(-time / 0.05)
    wires = np.diff(rng.standard_normal(len(time) + 1)) * np.exp(-time / 0.07)
    return faded(0.6 * skin + 0.16 * wires, sample_rate, in_seconds=0.002, out_seconds=0.05)


def hat(sample_rate: int, rng: np.random.Generator, *, ring_seconds: float = 0.03) -> Sound:
    """Tap a hi-hat: noise whose low end is removed by differencing.

    >>> import numpy as np
    >>> from solfa.demo import hat
    >>> closed, opened = (hat(8_000, np.random.default_rng(0), ring_seconds=seconds) for seconds in (0.03, 0.12))
    >>> len(closed) / 8_000, len(opened) / 8_000
    (0.24, 0.96)
    """
    time = np.arange(round(8 * ring_seconds * sample_rate)) / sample_rate
    noise = np.diff(rng.standard_normal(len(time) + 3), 3) * np.exp(-time / ring_seconds)
    return faded(0.05 * noise, sample_rate, in_seconds=0.001, out_seconds=0.02)


def voice(
    syllables: Sequence[str],
    notes: Sequence[float],
    seconds: float,
    sample_rate: int,
    rng: np.random.Generator,
    *,
    articulation: float = 0.85,
) -> Sound:
    """Say syllables (a vowel, or `s` and a vowel) at MIDI notes: a glottal source through formant resonators.

    `articulation` is how much the voice drops between syllables: 0 is legato, 1 is fully separate.
    """
    num_samples = round(seconds * sample_rate)
    time = np.arange(num_samples) / sample_rate
    position = time / seconds * len(syllables)  # in syllables
    centres = np.arange(len(syllables)) + 0.5
    vibrato = 0.12 * np.sin(2.0 * np.pi * (5.3 * time + rng.random())) * np.clip(time / 0.4, 0.0, 1.0)
    pitch_hz = 440.0 * 2.0 ** ((np.interp(position, centres, np.asarray(notes, np.float64)) + vibrato - 69.0) / 12.0)
    num_harmonics = max(1, int(0.45 * sample_rate / pitch_hz.max()))
    source = tone(pitch_hz, num_samples, sample_rate, [1.0 / number for number in range(1, num_harmonics + 1)])
    breath = 0.03 * rng.standard_normal(num_samples)
    tract = _through_tract(source + breath, position, [syllable[-1] for syllable in syllables], sample_rate)
    openness = np.sin(np.pi * (position % 1.0)) ** 0.5
    level = 1.0 - articulation * (1.0 - openness)
    hiss = np.diff(rng.standard_normal(num_samples + 2), 2) * _hiss_level(position, syllables)
    loudest = float(np.abs(tract).max())
    return faded(tract / loudest * level + 0.03 * hiss, sample_rate, in_seconds=0.03, out_seconds=0.06)


def _hiss_level(position: Sound, syllables: Sequence[str]) -> Sound:
    level = np.zeros_like(position)
    for number, syllable in enumerate(syllables):
        if syllable.startswith("s"):
            level += np.exp(-(((position - number - 0.08) / 0.1) ** 2))
    return level


def _through_tract(source: Sound, position: Sound, vowels: Sequence[str], sample_rate: int) -> Sound:
    """Filter with five cascaded resonators that glide between vowels, in windows that overlap by half."""
    hop = round(0.016 * sample_rate)
    num_frames = -(-len(source) // hop) + 1
    padded = np.pad(source, (hop, 2 * hop + num_frames * hop - len(source)))
    window = 0.5 - 0.5 * np.cos(np.pi * np.arange(2 * hop) / hop)
    # Each vowel holds for the middle 40 % of its syllable.
    knots = np.concatenate([[number + 0.3, number + 0.7] for number in range(len(vowels))])
    targets = np.repeat([VOWEL_FORMANTS_HZ[vowel] for vowel in vowels], 2, axis=0)
    fft_size = 1 << (4 * hop - 1).bit_length()  # the window and at least 32 ms for the resonators to ring out
    frequency = np.fft.rfftfreq(fft_size, 1.0 / sample_rate)
    squared = frequency**2
    dampings = [1j * bandwidth * frequency for bandwidth in FORMANT_BANDWIDTHS_HZ]
    filtered = np.zeros(len(padded) + fft_size)
    for frame in range(num_frames):
        where = position[min(frame * hop, len(position) - 1)]
        resistance = np.ones(len(frequency), np.complex128)
        for index, damping in enumerate(dampings):
            centre = np.interp(where, knots, targets[:, index])
            resistance *= 1.0 + (damping - squared) / centre**2
        piece = np.fft.rfft(window * padded[frame * hop : (frame + 2) * hop], fft_size)
        filtered[frame * hop : frame * hop + fft_size] += np.fft.irfft(piece / resistance, fft_size)
    return filtered[hop : hop + len(source)]


def faded(sound: Sound, sample_rate: int, *, in_seconds: float, out_seconds: float) -> Sound:
    """Fade in and out along a cosine, so that nothing clicks.

    >>> import numpy as np
    >>> from solfa.demo import faded
    >>> faded(np.ones(8), sample_rate=4, in_seconds=1.0, out_seconds=0.0).round(2)
    array([0.  , 0.15, 0.5 , 0.85, 1.  , 1.  , 1.  , 1.  ])
    """
    num_samples = sound.shape[-1]
    rise = min(num_samples // 2, round(in_seconds * sample_rate))
    fall = min(num_samples // 2, round(out_seconds * sample_rate))
    level = np.ones(num_samples)
    level[:rise] = 0.5 - 0.5 * np.cos(np.pi * np.arange(rise) / max(rise, 1))
    level[num_samples - fall :] *= 0.5 + 0.5 * np.cos(np.pi * np.arange(1, fall + 1) / max(fall, 1))
    return sound * level


def add_at(
    mix: Sound, sound: Sound, start_seconds: float, sample_rate: int, *, gain: float = 1.0, pan: float = 0.0
) -> None:
    """Add a sound `[N]` to a mix `[C, N]` in place, cut off at the mix's end; `pan` is -1 (left) to 1 (right).

    >>> from solfa.demo import add_at, kick, silence
    >>> mix = silence(2.0, sample_rate=8_000, num_channels=2)
    >>> add_at(mix, kick(8_000), start_seconds=0.5, sample_rate=8_000, pan=-1.0)
    >>> bool(mix[0, 4_000:].any()), bool(mix[0, :4_000].any()), round(float(abs(mix[1]).max()), 6)
    (True, False, 0.0)
    """
    start = round(start_seconds * sample_rate)
    length = min(len(sound), mix.shape[1] - start)
    if length <= 0:
        return
    tail = faded(sound[:length], sample_rate, in_seconds=0.0, out_seconds=0.02) if length < len(sound) else sound
    angle = (pan + 1.0) * np.pi / 4.0
    levels = (np.cos(angle), np.sin(angle)) if len(mix) == 2 else (1.0,)
    for channel, level in zip(mix, levels, strict=True):
        channel[start : start + length] += gain * level * tail


def in_room(
    mix: Sound, sample_rate: int, rng: np.random.Generator, *, wet: float = 0.15, seconds: float = 1.1
) -> Sound:
    """Add reverberation: decaying noise, different for every channel."""
    time = np.arange(round(seconds * sample_rate)) / sample_rate
    decay = np.exp(-6.9 * time / seconds) * np.clip((time - 0.012) / 0.01, 0.0, 1.0)
    wet_mix = np.empty_like(mix)
    for channel, dry in enumerate(mix):
        noise = rng.standard_normal(len(time) + 2)
        tail = (noise[:-2] + noise[1:-1] + noise[2:]) * decay  # three taps take the edge off the highs
        wet_mix[channel] = dry + wet * convolved(dry, tail / np.linalg.norm(tail))
    return wet_mix


def convolved(sound: Sound, response: Sound) -> Sound:
    """Convolve block by block in the frequency domain, keeping the length of `sound`."""
    size = 1 << (2 * len(response)).bit_length()
    block = size - len(response)
    spectrum = np.fft.rfft(response, size)
    result = np.zeros(len(sound) + size)
    for start in range(0, len(sound), block):
        piece = np.fft.rfft(sound[start : start + block], size)
        result[start : start + size] += np.fft.irfft(piece * spectrum, size)
    return result[: len(sound)]


def master(mix: Sound, sample_rate: int, *, peak: float = 0.7) -> NDArray[np.float32]:
    """Finish a mix: remove the offset, silence the first and last sample, and set the peak.

    >>> from solfa.demo import kick, master
    >>> mix = master(kick(8_000)[None], 8_000, peak=0.5)
    >>> mix.dtype, float(abs(mix).max()), float(abs(mix[0, -1]))
    (dtype('float32'), 0.5, 0.0)
    """
    centred = mix - mix.mean(axis=1, keepdims=True)
    finished = faded(centred, sample_rate, in_seconds=0.002, out_seconds=0.03)
    return np.asarray(finished * (peak / np.abs(finished).max()), np.float32)
