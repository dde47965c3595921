"""Instruments are in tune, deterministic, and neither click nor clip."""

import numpy as np
import pytest

from solfa.demo.instruments import (
    add_at,
    convolved,
    faded,
    hat,
    hertz,
    in_room,
    kick,
    master,
    pad,
    pluck,
    snare,
    tone,
    voice,
)


def strongest_hz(sound: np.ndarray, sample_rate: int, low: float, high: float) -> float:
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound)), 8 * len(sound)))
    frequency = np.fft.rfftfreq(8 * len(sound), 1 / sample_rate)
    inside = (frequency > low) & (frequency < high)
    return float(frequency[inside][spectrum[inside].argmax()])


@pytest.mark.parametrize("sample_rate", [16_000, 22_050, 44_100])
@pytest.mark.parametrize("note", [45, 64, 81])
def test_a_plucked_string_is_in_tune_and_dies_away(sample_rate, note):
    string = pluck(hertz(note), 1.5, sample_rate, np.random.default_rng(0))
    found = strongest_hz(string, sample_rate, hertz(note - 2), hertz(note + 2))
    assert abs(1200 * np.log2(found / hertz(note))) < 5  # cents
    half = len(string) // 2
    assert np.square(string[half:]).sum() < 0.5 * np.square(string[:half]).sum()


def test_a_tone_has_the_harmonics_it_was_given():
    sound = tone(500.0, 16_000, 16_000, [1.0, 0.0, 0.25])
    spectrum = np.abs(np.fft.rfft(sound)) / 8_000
    assert spectrum[[500, 1_000, 1_500, 2_000]] == pytest.approx([1.0, 0.0, 0.25, 0.0], abs=2e-3)


def test_a_vowel_is_loudest_near_its_first_formants():
    rng = np.random.default_rng(0)
    sung = voice(["a"], [45.0], 1.0, 16_000, rng)
    hummed = voice(["i"], [45.0], 1.0, 16_000, rng)

    def share(sound: np.ndarray, low: float, high: float) -> float:
        power = np.abs(np.fft.rfft(sound)) ** 2
        frequency = np.fft.rfftfreq(len(sound), 1 / 16_000)
        return float(power[(frequency > low) & (frequency < high)].sum() / power.sum())

    assert share(sung, 600, 1_200) > 3 * share(hummed, 600, 1_200)
    assert share(hummed, 1_900, 3_200) > 1.5 * share(sung, 1_900, 3_200)


@pytest.mark.parametrize(
    "play",
    [
        lambda rng: pluck(220.0, 0.7, 16_000, rng),
        lambda rng: pad(220.0, 0.7, 16_000, rng),
        lambda rng: kick(16_000),
        lambda rng: snare(16_000, rng),
        lambda rng: hat(16_000, rng),
        lambda rng: voice(["sa", "i"], [45, 47], 0.7, 16_000, rng),
    ],
)
def test_sounds_are_repeatable_and_begin_and_end_in_silence(play):
    one, other = play(np.random.default_rng(3)), play(np.random.default_rng(3))
    assert np.array_equal(one, other)
    assert np.isfinite(one).all() and np.abs(one).max() > 0.05
    assert max(abs(one[0]), abs(one[-1])) < 1e-3 * np.abs(one).max()


def test_a_room_is_a_convolution():
    rng = np.random.default_rng(0)
    sound, response = rng.standard_normal(1_000), rng.standard_normal(37)
    assert np.allclose(convolved(sound, response), np.convolve(sound, response)[:1_000])


def test_panning_keeps_the_power_and_the_end_is_cut_softly():
    mix = np.zeros((2, 1_000))
    add_at(mix, np.ones(2_000), 0.05, 16_000, pan=0.4)
    assert (mix[:, :800] == 0).all() and mix[1, 810] > mix[0, 810] > 0
    assert np.square(mix[:, 810]).sum() == pytest.approx(np.square(mix[:, 805]).sum(), rel=0.1)
    assert np.abs(mix[:, -1]).max() < 0.01


def test_mastering_sets_the_peak_and_removes_the_offset():
    mixed = in_room(np.random.default_rng(0).standard_normal((2, 8_000)) + 3.0, 16_000, np.random.default_rng(1))
    finished = master(mixed, 16_000, peak=0.7)
    assert finished.dtype == np.float32
    assert np.abs(finished).max() == pytest.approx(0.7)
    assert np.abs(finished.mean(axis=1)).max() < 0.01
    assert np.abs(finished[:, [0, -1]]).max() < 1e-6


def test_fading_a_sound_shorter_than_the_fade_is_possible():
    assert np.abs(faded(np.ones(3), 16_000, in_seconds=1.0, out_seconds=1.0)).max() <= 1.0
