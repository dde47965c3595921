"""Discriminators judge sounds of any length, pass gradients on, and can be left unchanged by the generator's step."""

import pytest
import torch
import torch.nn.functional as F

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.nn.discriminators import StftDiscriminator, StftDiscriminatorConfig, frozen
from solfa.ops.adversarial import Hinge, feature_matching_loss
from solfa.ops.audio_losses import spectrum

SMALL = StftDiscriminatorConfig(num_filters=4, windows=(128, 32))


def logits_of(judgements):
    return [judgement.logits for judgement in judgements]


@pytest.mark.parametrize("num_channels", [1, 2])
@pytest.mark.parametrize("num_samples", [1, 5, 33, 1_000])
def test_shapes_follow_the_windows_at_any_length(num_channels, num_samples):
    judgements = SMALL.build(num_channels)(torch.randn(3, num_channels, num_samples))
    assert len(judgements) == 2
    for judgement, window in zip(judgements, SMALL.windows, strict=True):
        num_frames, bins = 1 + num_samples // (window // 4), window // 2 + 1
        expected = [_halved(bins, times) for times in range(4)]
        assert [features.shape[3] for features in judgement.features] == [*expected, expected[-1]]
        assert all(features.shape[:3] == (3, 4, num_frames) for features in judgement.features)
        assert judgement.logits.shape == (3, 1, num_frames, expected[-1])


def test_a_cheaper_discriminator_sees_every_second_frame_and_bin():
    cheaper = StftDiscriminatorConfig(num_filters=4, windows=(64,), overlap=2, first_stride=2).build(1)
    dear = StftDiscriminatorConfig(num_filters=4, windows=(64,)).build(1)
    audio = torch.randn(1, 1, 640)
    (one,), (other,) = cheaper(audio), dear(audio)
    assert one.features[0].shape[2:] == (640 // 32 + 1, 17)
    assert other.features[0].shape[2:] == (640 // 16 + 1, 33)


def _halved(bins: int, times: int) -> int:
    for _ in range(times):
        bins = (bins + 1) // 2
    return bins


def test_a_judgement_equals_the_convolutions_written_out():
    scale = StftDiscriminator(StftDiscriminatorConfig(num_filters=3, dilations=(1, 2)), num_channels=1, window=64)
    audio = torch.randn(2, 1, 300)
    found = spectrum(audio, 64)
    x = torch.stack([found[:, 0].real, found[:, 0].imag], dim=1).transpose(2, 3)
    strides, dilations, paddings = [1, 2, 2, 1], [1, 1, 2, 1], [(1, 4), (1, 4), (2, 4), (1, 1)]
    for layer, stride, dilation, padding in zip(scale.layers, strides, dilations, paddings, strict=True):
        x = F.conv2d(x, layer.weight, layer.bias, (1, stride), padding, (dilation, 1))
        x = torch.where(x > 0, x, 0.2 * x)
    logits = F.conv2d(x, scale.last.weight, scale.last.bias, 1, (1, 1))
    judgement = scale(audio)
    torch.testing.assert_close(judgement.logits, logits)
    torch.testing.assert_close(judgement.features[-1], x)


def test_compressed_spectra_keep_their_phases_and_show_what_is_quiet():
    config = StftDiscriminatorConfig(num_filters=3, windows=(64,), compression=0.3)
    (compressed,), (plain,) = config.build(1).scales, config.model_copy(update={"compression": 1.0}).build(1).scales
    plain.load_state_dict(compressed.state_dict())
    audio = torch.randn(2, 1, 300)
    audio[1] *= 0.01
    seen = []
    compressed.layers[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    plain.layers[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    compressed(audio), plain(audio)
    found, whole = (torch.complex(parts[:, 0], parts[:, 1]) for parts in seen)
    slow = torch.tensor(
        [[[z / (abs(z) + 1e-3) ** 0.7 for z in bins] for bins in clip] for clip in whole.tolist()]  # complex128
    )
    torch.testing.assert_close(found, slow.to(found.dtype), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(found.angle(), whole.angle(), rtol=1e-5, atol=1e-5)
    ratio, uncompressed = (spectra[1].abs().mean() / spectra[0].abs().mean() for spectra in (found, whole))
    assert uncompressed < 0.02 < 0.2 < ratio


def test_silence_has_a_finite_gradient_in_compressed_spectra():
    audio = torch.zeros(1, 1, 200, requires_grad=True)
    (judged,) = StftDiscriminatorConfig(num_filters=3, windows=(64,), compression=0.3).build(1)(audio)
    judged.logits.sum().backward()
    assert audio.grad.isfinite().all()


def test_clips_are_judged_apart():
    discriminator = SMALL.build(1)
    audio = torch.randn(3, 1, 400)
    for together, alone in zip(logits_of(discriminator(audio)), logits_of(discriminator(audio[1:2])), strict=True):
        torch.testing.assert_close(together[1:2], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("num_samples", [1, 20, 500])
def test_gradients_reach_the_generator_and_not_a_frozen_discriminator(num_samples):
    discriminator = SMALL.build(1)
    gain = torch.ones(1, requires_grad=True)
    real = torch.randn(2, 1, num_samples)
    fake = gain * torch.randn(2, 1, num_samples)
    fake.retain_grad()
    with frozen(discriminator):
        judged, wanted = discriminator(fake), discriminator(real)
    loss = Hinge().generator_loss(logits_of(judged)) + feature_matching_loss(
        [judgement.features for judgement in wanted], [judgement.features for judgement in judged]
    )
    loss.backward()
    assert torch.isfinite(fake.grad).all() and fake.grad.abs().amax(dim=(1, 2)).min() > 0 and gain.grad is not None
    assert all(parameter.grad is None and parameter.requires_grad for parameter in discriminator.parameters())


def test_freezing_is_undone_after_an_error_and_leaves_what_was_frozen_before():
    discriminator = SMALL.build(1)
    first = next(discriminator.parameters()).requires_grad_(False)
    with pytest.raises(ValueError, match="1 channels"), frozen(discriminator):
        assert not any(parameter.requires_grad for parameter in discriminator.parameters())
        discriminator(torch.randn(1, 2, 50))
    assert not first.requires_grad
    assert all(parameter.requires_grad for parameter in list(discriminator.parameters())[1:])


def test_gradients_are_finite_in_silence():
    audio = torch.zeros(2, 1, 300, requires_grad=True)
    discriminator = SMALL.build(1)
    sum(logits.square().mean() for logits in logits_of(discriminator(audio))).backward()
    assert torch.isfinite(audio.grad).all()
    assert all(torch.isfinite(parameter.grad).all() for parameter in discriminator.parameters())


def test_it_learns_to_tell_a_tone_from_noise_and_every_parameter_takes_part():
    discriminator = StftDiscriminatorConfig(num_filters=4, windows=(64,)).build(1)
    optimizer = torch.optim.Adam(discriminator.parameters(), lr=3e-3)
    time = torch.arange(400) / 400
    for _ in range(40):
        real = torch.sin(2 * torch.pi * (40 * time + torch.rand(4, 1, 1)))
        fake = torch.randn(4, 1, 400) * 0.7
        loss = Hinge().discriminator_loss(logits_of(discriminator(real)), logits_of(discriminator(fake.detach())))
        optimizer.zero_grad()
        loss.backward()
        assert all(parameter.grad is not None for parameter in discriminator.parameters())
        optimizer.step()
    assert loss.item() < 1.0


def test_weights_round_trip_by_their_state():
    audio = torch.randn(1, 1, 300)
    one, other = SMALL.build(1), SMALL.build(1)
    assert not torch.equal(one(audio)[0].logits, other(audio)[0].logits)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(audio)[0].logits, other(audio)[0].logits)


def test_wrong_audio_and_wrong_settings_are_answered():
    with pytest.raises(ValueError, match=r"at least one sample, found \(1, 1, 0\)"):
        SMALL.build(1)(torch.zeros(1, 1, 0))
    for wrong in ({"windows": []}, {"windows": [30]}, {"num_filters": 0}, {"dilations": [0]}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            parse_config(StftDiscriminatorConfig, wrong, "discriminator")
