"""Synthesised recordings to judge: plucked notes of a random scale, the same for the same seed."""

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from solfa.audio.writer import write_audio
from solfa.generate.clip import GeneratedClip

RATE = 16_000


@lru_cache
def melody(seed: int, seconds: float = 3.0) -> NDArray[np.float32]:
    """Play some notes, `[1, N]`."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(seconds * RATE)) / RATE
    sound = np.zeros_like(time)
    for start in np.arange(0.0, seconds, 0.25):
        hz, since = 220.0 * 2 ** (rng.integers(0, 25) / 12), np.maximum(time - start, 0.0)
        tone = sum(np.sin(2 * np.pi * hz * k * since) / k for k in (1, 2, 3))
        sound += 0.12 * tone * np.exp(-6 * since) * (time >= start)
    return sound[None].astype(np.float32)


def clips(seeds: range, change: object = None) -> list[GeneratedClip]:
    """Play melodies, changed by a function."""
    altered = change if callable(change) else lambda sound: sound
    return [GeneratedClip(f"{seed:03d}", altered(melody(seed)).astype(np.float32), RATE) for seed in seeds]


def write_melodies(folder: Path, seeds: range, change: object = None) -> Path:
    """Write melodies as files called by their place."""
    for place, clip in enumerate(clips(seeds, change)):
        write_audio(folder / f"{place:02d}.wav", clip.samples(), RATE)
    return folder


def with_noise(level: float) -> object:
    return lambda sound: (
        sound + level * np.random.default_rng(int(1e6 * abs(sound).sum()) % 2**31).standard_normal(sound.shape)
    )


def low_passed(cutoff_hz: float) -> object:
    def change(sound: NDArray[np.float32]) -> NDArray[np.float64]:
        spectrum = np.fft.rfft(sound, axis=1)
        spectrum[:, np.fft.rfftfreq(sound.shape[1], 1 / RATE) > cutoff_hz] = 0
        return np.fft.irfft(spectrum, sound.shape[1], axis=1)

    return change


def in_mulaw(bits: int) -> object:
    def change(sound: NDArray[np.float32]) -> NDArray[np.float64]:
        mu = 2.0**bits - 1
        companded = np.sign(sound) * np.log1p(mu * np.abs(sound)) / np.log1p(mu)
        rounded = np.round((companded + 1) / 2 * mu) / mu * 2 - 1
        return np.sign(rounded) * np.expm1(np.abs(rounded) * np.log1p(mu)) / mu

    return change
