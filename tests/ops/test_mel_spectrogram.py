"""A spectrogram puts energy where the definition says, whatever the rate and the block size."""

import numpy as np
import pytest

from solfa.ops import mel_spectrogram
from solfa.ops.mel_spectrogram import decibels, hz_to_mel, mel_filters, mel_to_hz


def sine(frequency_hz: float, sample_rate: int, seconds: float = 0.5) -> np.ndarray:
    time = np.arange(round(seconds * sample_rate)) / sample_rate
    return np.sin(2 * np.pi * frequency_hz * time).astype(np.float32)


@pytest.mark.parametrize("sample_rate", [16_000, 22_050, 48_000])
@pytest.mark.parametrize("frequency_hz", [110.0, 440.0, 2_500.0, 7_000.0])
def test_a_sine_peaks_in_the_band_nearest_to_it(sample_rate, frequency_hz):
    mel = mel_spectrogram.mel_spectrogram(sine(frequency_hz, sample_rate), sample_rate, num_bands=64)
    highest = float(hz_to_mel(np.array([sample_rate / 2]))[0])
    centres = mel_to_hz(np.arange(1, 65) * highest / 65)
    loudest = int(mel[:, mel.shape[1] // 2].argmax())
    assert abs(loudest - int(np.abs(centres - frequency_hz).argmin())) <= 1


def test_a_full_scale_sine_has_about_unit_power():
    mel = mel_spectrogram.mel_spectrogram(sine(1_000.0, 16_000), 16_000, num_bands=64)
    assert -3.0 < decibels(mel[:, mel.shape[1] // 2]).max() < 3.0


def test_mels_invert_and_follow_the_formula():
    frequency = np.array([0.0, 440.0, 1_000.0, 20_000.0])
    assert np.allclose(mel_to_hz(hz_to_mel(frequency)), frequency)
    assert hz_to_mel(np.array([1_000.0]))[0] == pytest.approx(999.99, abs=0.02)


@pytest.mark.parametrize(("num_bands", "fft_size"), [(128, 1024), (256, 512)])
def test_no_band_is_empty_even_where_bands_are_narrower_than_bins(num_bands, fft_size):
    filters = mel_filters(num_bands, fft_size, 48_000, 24_000.0)
    assert (filters.max(axis=1) > 0).all()
    assert filters.min() >= 0 and filters.max() <= 1


def test_spectrogram_equals_its_slow_definition():
    audio = np.random.default_rng(0).standard_normal(3_000).astype(np.float32)
    mel = mel_spectrogram.mel_spectrogram(audio, 8_000, num_bands=20, fft_size=256, hop_length=100)
    window = np.hanning(257)[:-1]
    padded = np.concatenate([np.zeros(128), audio, np.zeros(128)])
    filters = mel_filters(20, 256, 8_000, 4_000.0)
    assert mel.shape == (20, 1 + 3_000 // 100)
    for column in range(mel.shape[1]):
        frame = padded[column * 100 : column * 100 + 256] * window * 2 / window.sum()
        power = np.abs(np.fft.rfft(frame)) ** 2
        assert np.allclose(mel[:, column], filters @ power, rtol=1e-3, atol=1e-7)


def test_blocks_of_frames_do_not_show(monkeypatch):
    audio = np.random.default_rng(1).standard_normal(9_000).astype(np.float32)
    whole = mel_spectrogram.mel_spectrogram(audio, 16_000, hop_length=64)
    monkeypatch.setattr(mel_spectrogram, "FRAMES_AT_ONCE", 7)
    assert np.allclose(mel_spectrogram.mel_spectrogram(audio, 16_000, hop_length=64), whole, rtol=1e-4, atol=1e-9)


def test_silence_and_a_single_sample_are_measured():
    assert (mel_spectrogram.mel_spectrogram(np.zeros(100, np.float32), 16_000) == 0).all()
    assert mel_spectrogram.mel_spectrogram(np.ones(1, np.float32), 16_000).shape == (96, 1)
    assert decibels(np.zeros(3)).tolist() == [-120.0] * 3
