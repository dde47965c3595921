"""Landmarks: the definition of a peak, what a copy keeps, and how they are stored."""

import numpy as np
import pytest
import soxr
from hypothesis import given
from hypothesis import strategies as st

from solfa.ops.landmarks import (
    _BANDS,
    _HANN,
    _REACH,
    HOP,
    LANDMARK_RATE,
    NUM_LANDMARKS,
    WINDOW,
    Landmarks,
    _mono,
    _pair_up,
    _peaks,
    at_speed,
    find_landmarks,
    pack_landmarks,
    unpack_landmarks,
)


def melody(seconds: float, sample_rate: int, seed: int = 0) -> np.ndarray:
    """Notes of three partials that come and go, [1, N]; the same sound at every rate."""
    rng = np.random.default_rng(seed)
    sound = np.zeros(round(seconds * sample_rate))
    for _ in range(round(8 * seconds)):
        middle, pitch, level = rng.uniform(0, seconds), rng.uniform(170, 1000), rng.uniform(0.2, 1)
        near = slice(max(0, round((middle - 0.25) * sample_rate)), round((middle + 0.25) * sample_rate))
        times = np.arange(near.start, min(near.stop, len(sound))) / sample_rate
        envelope = level * np.exp(-(((times - middle) / 0.05) ** 2))
        sound[near] += envelope * sum(np.sin(2 * np.pi * part * pitch * times) / part for part in (1, 2, 3))
    return sound[None]


def shared(one: Landmarks, other: Landmarks, offset: int) -> int:
    """How many landmarks two sounds have in common if the second begins `offset` frames into the first."""
    mine = set(zip(one.pairs.tolist(), one.frames.tolist(), strict=True))
    return len(mine & set(zip(other.pairs.tolist(), (other.frames + offset).tolist(), strict=True)))


def test_a_peak_is_the_strongest_of_its_band_for_a_while() -> None:
    sound = np.random.default_rng(1).standard_normal(3 * LANDMARK_RATE).astype(np.float32)
    frames = [sound[start : start + WINDOW] * _HANN for start in range(0, len(sound) - WINDOW + 1, HOP)]
    power = np.array([np.abs(np.fft.rfft(frame)) ** 2 for frame in frames])
    expected = []
    for frame in range(len(power)):
        around = power[max(0, frame - _REACH) : frame + _REACH + 1]
        # The strongest bin of a band that rises towards the next band is no point of its own, in no frame.
        tops = [
            [row[low:high].max() * (low + row[low:high].argmax() == _top(row, low, high)) for row in around]
            for low, high in _BANDS
        ]
        here = min(frame, _REACH)
        for (low, high), levels in zip(_BANDS, tops, strict=True):
            if levels[here] > 0 and levels[here] == max(levels):
                expected.append((frame, low + int(power[frame, low:high].argmax())))
    assert list(zip(*(part.tolist() for part in _peaks(sound)), strict=True)) == expected
    assert len(expected) > 20


def _top(row: np.ndarray, low: int, high: int) -> int:
    best = low + int(row[low:high].argmax())
    return best if row[best] >= max(row[best - 1], row[best + 1]) else -1


def test_peaks_are_paired_with_the_next_three_that_begin_later() -> None:
    frames, bins = np.array([0, 0, 1, 5, 5, 9, 90]), np.array([30, 50, 31, 32, 60, 33, 34])
    expected = set()
    for i in range(len(frames)):
        later = [j for j in range(i + 1, len(frames)) if 0 < frames[j] - frames[i] <= 63][:3]
        expected |= {(bins[i] << 14 | bins[j] << 5 | (frames[j] - frames[i]) // 2, frames[i]) for j in later}
    found = _pair_up(frames, bins)
    assert set(zip(found.pairs.tolist(), found.frames.tolist(), strict=True)) == expected
    assert (np.diff(found.frames) >= 0).all()


def test_gain_channels_and_a_cut_on_the_grid_change_nothing() -> None:
    sound = melody(8, LANDMARK_RATE)
    whole = find_landmarks(sound, LANDMARK_RATE)
    stereo = find_landmarks(np.concatenate([0.125 * sound, 0.125 * sound]), LANDMARK_RATE)
    assert all(np.array_equal(one, other) for one, other in zip(whole, stereo, strict=True))
    interleaved = np.stack([sound[0], np.zeros_like(sound[0])], axis=1).astype(np.float32).T[:1]
    assert np.array_equal(find_landmarks(interleaved, LANDMARK_RATE).pairs, whole.pairs)
    cut = find_landmarks(sound[:, 40 * HOP :], LANDMARK_RATE)
    # Near the cut there are other neighbours; further in, both are the same.
    inside = cut.frames > 2 * _REACH
    assert shared(whole, Landmarks(cut.pairs[inside], cut.frames[inside]), 40) == inside.sum() > 50


@pytest.mark.parametrize("sample_rate", [11_025, 24_000, 44_100])
def test_another_rate_and_a_cut_between_frames_keep_enough(sample_rate: int) -> None:
    whole = find_landmarks(melody(8, LANDMARK_RATE), LANDMARK_RATE)
    start = round(1.0037 * sample_rate)
    copy = find_landmarks(0.3 * melody(8, sample_rate)[:, start:], sample_rate)
    offsets = [shared(whole, copy, offset) for offset in range(60)]
    assert np.argmax(offsets) in (20, 21)  # 1.0037 s are 20.9 frames
    assert max(offsets) > 10 * np.median(offsets) + 10
    other = find_landmarks(melody(8, sample_rate, seed=1), sample_rate)
    assert max(shared(whole, other, offset) for offset in range(-60, 60)) <= 3


def test_a_copy_at_another_speed_is_found_at_that_speed() -> None:
    sound = melody(8, LANDMARK_RATE)
    fast = find_landmarks(soxr.resample(sound[0], 1.03, 1.0)[None], LANDMARK_RATE)
    slow = at_speed(find_landmarks(sound, LANDMARK_RATE), 1.03)
    assert max(shared(fast, slow, offset) for offset in (-1, 0, 1)) > 20
    same = find_landmarks(sound, LANDMARK_RATE)
    assert all(np.array_equal(one, other) for one, other in zip(same, at_speed(same, 1.0), strict=True))


@pytest.mark.parametrize("num_samples", [0, 1, WINDOW - 1, WINDOW, WINDOW + HOP])
def test_short_silent_or_broken_sound_has_no_landmarks(num_samples: int) -> None:
    for sound in (np.zeros((1, num_samples)), np.full((2, num_samples), np.nan), np.ones((1, num_samples))):
        for rate in (LANDMARK_RATE, 44_100):
            assert len(find_landmarks(sound, rate).pairs) == 0


def test_silence_of_any_length_has_no_landmarks() -> None:
    assert len(find_landmarks(np.zeros((1, 50_000)), LANDMARK_RATE).pairs) == 0
    assert len(pack_landmarks(find_landmarks(np.zeros((1, 50_000)), LANDMARK_RATE))) == 0


@given(
    st.lists(st.integers(0, NUM_LANDMARKS - 2), max_size=20),
    st.lists(st.sampled_from([0, 1, 7, 510, 511, 512, 513, 1023, 1024, 5000, 200_000]), min_size=20, max_size=20),
)
def test_packing_inverts(pairs: list[int], gaps: list[int]) -> None:
    landmarks = Landmarks(np.array(pairs, np.int64), np.cumsum(gaps[: len(pairs)], dtype=np.int64))
    packed = pack_landmarks(landmarks)
    assert packed.dtype == np.uint32
    again = unpack_landmarks(packed)
    assert all(np.array_equal(one, other) for one, other in zip(landmarks, again, strict=True))


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000, 44_100])
def test_a_clip_that_is_too_short_for_a_pair_is_not_looked_at(rate):
    shortest = (WINDOW + HOP) * rate // LANDMARK_RATE
    for num_samples in (1, shortest // 2, shortest - rate // 1000, shortest - 1, shortest + rate // 50):
        noise = np.random.default_rng(0).standard_normal((2, num_samples)).astype(np.float32)
        looked_at = _pair_up(*_peaks(_mono(noise, rate)))
        found = find_landmarks(noise, rate)
        assert np.array_equal(found.pairs, looked_at.pairs) and np.array_equal(found.frames, looked_at.frames)
    assert len(find_landmarks(np.random.default_rng(0).standard_normal((1, 2 * shortest)), rate).pairs) > 0
