"""Losses equal their slow definitions, and have finite gradients in silence and for the shortest clips."""

import math

import numpy as np
import pytest
import torch

from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.ops.audio_losses import (
    AnyAudioLoss,
    MelLoss,
    StftLoss,
    TimeLoss,
    check_same_shape,
    mel_loss,
    mel_power,
    spectrum,
    stft_loss,
    time_loss,
)
from solfa.ops.mel_spectrogram import hz_to_mel, mel_filters, mel_spectrogram, mel_to_hz

RATE = 8_000
LOSSES = [TimeLoss(), TimeLoss(order=2), MelLoss(windows=(32, 256)), MelLoss(log_order=1), StftLoss(windows=(64, 256))]


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return 0.3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def frames_slowly(audio: torch.Tensor, window: int) -> np.ndarray:
    """Transform one frame at a time: [frames, bins]."""
    hann = np.array([0.5 - 0.5 * math.cos(2 * math.pi * n / window) for n in range(window)])
    hann /= math.sqrt(float((hann**2).sum()))
    padded = np.concatenate([np.zeros(window // 2), audio.numpy(), np.zeros(window // 2)])
    starts = range(0, len(padded) - window + 1, window // 4)
    return np.array([np.fft.rfft(padded[start : start + window] * hann) for start in starts])


def mel_slowly(audio: torch.Tensor, window: int, num_bands: int, min_hz: float, max_hz: float) -> np.ndarray:
    """Add up power band by band and bin by bin under triangles: [frames, bands]."""

    def to_mel(hz: float) -> float:
        return 2595.0 * math.log10(1.0 + hz / 700.0)

    step = (to_mel(max_hz) - to_mel(min_hz)) / (num_bands + 1)
    edges = [700.0 * (10.0 ** ((to_mel(min_hz) + i * step) / 2595.0) - 1.0) for i in range(num_bands + 2)]
    power = np.abs(frames_slowly(audio, window)) ** 2
    bin_hz = RATE / window
    mel = np.zeros((len(power), num_bands))
    for band, (low, centre, high) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        rise, fall = max(centre - low, bin_hz), max(high - centre, bin_hz)
        for index in range(window // 2 + 1):
            hz = index * bin_hz
            height = 1.0 - (centre - hz) / rise if hz < centre else 1.0 - (hz - centre) / fall
            mel[:, band] += max(0.0, height) * power[:, index]
    return mel


@pytest.mark.parametrize("num_samples", [1, 50, 700])
@pytest.mark.parametrize("window", [16, 256])
def test_the_spectrum_equals_its_slow_definition(num_samples, window):
    audio = noise(2, 2, num_samples)
    found = spectrum(audio, window)
    assert found.shape == (2, 2, window // 2 + 1, 1 + num_samples // (window // 4))
    for clip in range(2):
        for channel in range(2):
            expected = torch.from_numpy(frames_slowly(audio[clip, channel], window)).T
            torch.testing.assert_close(found[clip, channel], expected)


def test_mel_power_is_that_of_pictures_up_to_the_scale_of_the_window():
    audio = noise(1, 1, 3_000, dtype=torch.float32)
    picture = mel_spectrogram(audio[0, 0].numpy(), RATE, num_bands=20, fft_size=256, hop_length=64)
    np.testing.assert_allclose(mel_power(audio, RATE, 256, 20)[0, 0].numpy() * 6 / 256, picture, rtol=2e-3, atol=1e-7)


@pytest.mark.parametrize("window", [64, 256])
def test_every_band_hears_noise_and_a_sine_is_loudest_where_it_belongs(window):
    assert mel_power(noise(1, 1, 4_000), RATE, window, 64).mean(dim=-1).min() > 0
    sine = torch.sin(2 * math.pi * 1_000 * torch.arange(4_000) / RATE)[None, None]
    mel = mel_power(sine, RATE, 256, 24)[0, 0, :, 20]
    mels = 2595.0 * math.log10(1 + 1_000 / 700), 2595.0 * math.log10(1 + 4_000 / 700)
    assert abs(int(mel.argmax()) + 1 - 25 * mels[0] / mels[1]) <= 1


def test_wide_bands_share_each_bin_so_that_no_power_is_lost_between_them():
    filters = mel_filters(12, 1_024, RATE, 4_000.0)
    centres = mel_to_hz(np.arange(1, 13) * float(hz_to_mel(np.array([4_000.0]))[0]) / 13)
    bins_hz = np.arange(513) * RATE / 1_024
    between = (bins_hz >= centres[0]) & (bins_hz <= centres[-1])
    assert filters.shape == (12, 513)
    np.testing.assert_allclose(filters.sum(axis=0)[between], 1.0, rtol=1e-9)
    assert filters[:, [0, -1]].max() < 1e-9


@pytest.mark.parametrize("log_order", [1, 2])
@pytest.mark.parametrize("num_samples", [40, 500])
def test_mel_loss_equals_its_slow_definition(log_order, num_samples):
    estimate, target = noise(2, 1, num_samples, seed=1), noise(2, 1, num_samples, seed=2)
    settings = {"num_bands": 7, "min_hz": 60.0, "max_hz": 3_500.0}
    found = mel_loss(
        estimate, target, sample_rate=RATE, windows=(32, 128), linear_weight=0.5, log_weight=2.0, log_order=log_order,
        floor=1e-4, **settings,
    )  # fmt: skip
    expected = 0.0
    for window in (32, 128):
        one, other = (
            np.concatenate([mel_slowly(clip[0], window, **settings) for clip in audio]) for audio in (estimate, target)
        )
        expected += 0.5 * np.abs(one - other).mean() / 2
        expected += 2.0 * (np.abs(np.log10(1e-4 + one) - np.log10(1e-4 + other)) ** log_order).mean() / 2
    assert found.item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("num_samples", [40, 500])
def test_stft_loss_equals_its_slow_definition(num_samples):
    estimate, target = noise(2, 2, num_samples, seed=1), noise(2, 2, num_samples, seed=2)
    found = stft_loss(estimate, target, windows=(32, 128), convergence_weight=0.5, log_weight=2.0, floor=1e-4)
    expected = 0.0
    for window in (32, 128):
        for clip in range(2):
            for channel in range(2):
                one, other = (np.abs(frames_slowly(audio[clip, channel], window)) for audio in (estimate, target))
                error, size = ((one - other) ** 2).mean(), 1e-4 + (other**2).mean()
                expected += 0.5 * math.sqrt(error / size) / 8
                expected += np.abs(np.log(1e-4 + one**2) - np.log(1e-4 + other**2)).mean() * 0.5 * 2.0 / 8
    assert found.item() == pytest.approx(expected, rel=1e-9)


def test_time_loss_equals_its_definition():
    estimate, target = noise(2, 1, 9, seed=1), noise(2, 1, 9, seed=2)
    differences = [float(a - b) for a, b in zip(estimate.flatten(), target.flatten(), strict=True)]
    assert time_loss(estimate, target).item() == pytest.approx(sum(map(abs, differences)) / 18)
    assert time_loss(estimate, target, order=2).item() == pytest.approx(sum(d * d for d in differences) / 18)


@pytest.mark.parametrize("config", LOSSES, ids=lambda config: f"{config.kind}")
@pytest.mark.parametrize("num_samples", [1, 30, 1_500])
def test_losses_are_zero_for_equal_sounds_and_positive_for_others(config, num_samples):
    loss = config.build(RATE)
    target = noise(2, 2, num_samples)
    assert loss(target.clone(), target).item() == 0.0
    assert loss(target + 0.1, target).item() > 0.0
    assert loss(0.5 * target, target).item() > 0.0


@pytest.mark.parametrize("config", LOSSES, ids=lambda config: f"{config.kind}")
@pytest.mark.parametrize("num_samples", [1, 30, 1_500])
@pytest.mark.parametrize(("estimate_level", "target_level"), [(0, 0), (0, 1), (1, 0), (1, 1), (1e-20, 0)])
def test_gradients_are_finite_in_silence_and_for_short_clips(config, num_samples, estimate_level, target_level):
    target = target_level * noise(2, 1, num_samples, dtype=torch.float32)
    estimate = (estimate_level * noise(2, 1, num_samples, dtype=torch.float32)).requires_grad_()
    loss = config.build(RATE)(estimate, target)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(estimate.grad).all()
    if estimate_level == 1 and target_level == 0:
        assert estimate.grad.abs().max() > 0


@pytest.mark.parametrize("config", LOSSES, ids=lambda config: f"{config.kind}")
def test_gradients_agree_with_finite_differences(config):
    target = noise(1, 1, 20, seed=3)
    estimate = noise(1, 1, 20, seed=4).requires_grad_()
    small = config.model_copy(update={"windows": (16,), "num_bands": 5} if config.kind == "mel" else {})
    assert torch.autograd.gradcheck(lambda audio: small.build(RATE)(audio, target), estimate)


@pytest.mark.parametrize("config", LOSSES, ids=lambda config: f"{config.kind}")
def test_half_precision_is_measured_too(config):
    estimate, target = noise(1, 1, 600, seed=1), noise(1, 1, 600, seed=2)
    exact = config.build(RATE)(estimate.bfloat16().float(), target.bfloat16().float())
    half = config.build(RATE)(estimate.bfloat16(), target.bfloat16())
    assert half.item() == pytest.approx(exact.item(), rel=0.02)


def test_constants_first_made_in_inference_mode_serve_training():
    estimate = noise(1, 1, 300).requires_grad_()
    with torch.inference_mode():
        mel_power(estimate, 7_777, 52, 3)
    mel_power(estimate, 7_777, 52, 3).sum().backward()
    assert estimate.grad is not None


def test_sounds_of_different_shape_are_refused():
    with pytest.raises(ValueError, match=r"found \(2, 1, 100\) and \(2, 2, 100\)"):
        check_same_shape(torch.zeros(2, 1, 100), torch.zeros(2, 2, 100))


class Losses(Config):
    losses: tuple[AnyAudioLoss, ...]


def test_losses_are_chosen_by_kind_and_checked():
    found = parse_config(
        Losses, {"losses": [{"kind": "mel", "windows": [64]}, {"kind": "stft"}, {"kind": "time"}]}, "x"
    )
    assert [type(loss) for loss in found.losses] == [MelLoss, StftLoss, TimeLoss]
    for wrong in ({"windows": []}, {"windows": [63]}, {"windows": [2]}, {"log_order": 3}, {"floor": 0.0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            parse_config(MelLoss, wrong, "mel")
    for wrong in ({"max_hz": 4_001.0}, {"min_hz": 4_000.0}, {"min_hz": 500.0, "max_hz": 400.0}):
        with pytest.raises(ConfigError, match="min_hz < max_hz <= 4000"):
            parse_config(MelLoss, wrong, "mel").build(RATE)
