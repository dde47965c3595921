"""The network on spectra keeps whole frames, hears clips apart, and sees no further than its blocks reach."""

import math

import pytest
import torch
import torch.nn.functional as F

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.nn.convnext import ConvNextBlock, DepthwiseConv
from solfa.nn.spectral_net import LARGEST_LOG, SMALLEST, SpectralConfig, compressed, expanded, features_of, spectra_of
from solfa.ops.mdct import from_mdct, to_mdct

SMALL = SpectralConfig(
    hop_length=8,
    window=32,
    dim=6,
    encoder_width=12,
    encoder_blocks=2,
    decoder_width=10,
    decoder_blocks=2,
    kernel_size=3,
)
DIRECT = SMALL.model_copy(update={"direct_coefficients": 3})
both = pytest.mark.parametrize("config", [SMALL, DIRECT], ids=["blocks", "direct"])


@both
@pytest.mark.parametrize("num_channels", [1, 2])
@pytest.mark.parametrize("num_samples", [1, 8, 9, 100])
def test_any_length_becomes_whole_frames_and_back(config, num_channels, num_samples):
    latents = config.build_encoder(num_channels)(torch.randn(3, num_channels, num_samples))
    num_frames = math.ceil(num_samples / 8)
    assert latents.shape == (3, 6, num_frames)
    assert config.build_decoder(num_channels)(latents).shape == (3, num_channels, 8 * num_frames)


@both
def test_channels_of_the_decoder_are_not_mixed_up(config):
    decoder = config.build_decoder(2)
    with torch.no_grad():
        decoder.last.weight[: config.num_bins].zero_()
        decoder.last.bias[: config.num_bins].fill_(-100.0)  # magnitudes of the first channel
        if decoder.direct is not None:
            decoder.direct.weight[: config.direct_coefficients].zero_()
            first = slice(4 * config.num_bins, 4 * config.num_bins + config.direct_coefficients)
            decoder.last.weight[first].zero_()
            decoder.last.bias[first].zero_()
    audio = decoder(torch.randn(2, 6, 5))
    assert audio[:, 0].abs().max() < 1e-20
    assert audio[:, 1].abs().max() > 1e-3


@both
def test_half_precision_gives_about_the_same(config):
    encoder, decoder = config.build_encoder(1), config.build_decoder(1)
    audio = torch.randn(1, 1, 64)
    latents = encoder(audio)
    decoded = decoder(latents)
    low = encoder.bfloat16()(audio.bfloat16())
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), latents, rtol=0.1, atol=0.1)
    sound = decoder.bfloat16()(low)
    assert sound.dtype == torch.bfloat16
    torch.testing.assert_close(sound.float(), decoded, rtol=0.3, atol=0.3)


@both
def test_clips_of_a_batch_are_encoded_apart(config):
    encoder = config.build_encoder(1)
    audio = torch.randn(4, 1, 80)
    torch.testing.assert_close(encoder(audio)[2:3], encoder(audio[2:3]), rtol=1e-4, atol=1e-5)


@both
def test_a_frame_sees_its_window_and_one_frame_more_per_block_of_three(config):
    encoder = config.build_encoder(1)
    audio = torch.randn(1, 1, 160, requires_grad=True)
    encoder(audio)[0, :, 10].sum().backward()
    seen = audio.grad[0, 0].nonzero().flatten()
    # Frame 10 is centred on sample 84; two blocks reach two hops of 8, and a window 16 to each side.
    assert seen.min() >= 84 - 16 - 2 * 8 and seen.max() < 84 + 16 + 2 * 8
    assert seen.max() - seen.min() > 2 * (16 + 8)


def test_direct_coefficients_pass_beside_blocks_that_say_nothing():
    encoder, decoder = DIRECT.build_encoder(1).double(), DIRECT.build_decoder(1).double()
    with torch.no_grad():
        for layer in (encoder.last, decoder.last):
            layer.weight.zero_()
            layer.bias.zero_()
        decoder.last.bias[: DIRECT.num_bins].fill_(-100.0)
    audio = torch.randn(2, 1, 64, dtype=torch.float64)
    coefficients = to_mdct(audio[:, 0], 8, 3)
    # Magnitudes up to 5 lose at most SMALLEST by being compressed: |c| - c² / (|c| + SMALLEST) < SMALLEST.
    heard = from_mdct(expanded(compressed(coefficients)), 8)
    torch.testing.assert_close(decoder(encoder(audio))[:, 0], heard)
    torch.testing.assert_close(heard, from_mdct(coefficients, 8), rtol=0, atol=8 * SMALLEST)


def test_expanding_undoes_compressing_within_what_vanishes():
    values = torch.cat([torch.logspace(-6, 2, 50), -torch.logspace(-6, 2, 50), torch.zeros(1)])[None, :, None].double()
    torch.testing.assert_close(expanded(compressed(values)), values, rtol=0, atol=SMALLEST)
    assert expanded(torch.full((1, 1, 1), 1e4)).item() == pytest.approx(math.exp(LARGEST_LOG))


def test_a_network_without_direct_coefficients_is_written_as_before_they_existed():
    assert "direct_coefficients" not in SMALL.model_dump()
    assert parse_config(SpectralConfig, DIRECT.model_dump(), "network") == DIRECT


def test_a_block_equals_its_definition():
    block = ConvNextBlock(5, 9, 3, scale=0.5)
    x = torch.randn(2, 7, 5)
    padded = F.pad(x, (0, 0, 1, 1))
    weight = block.mix.weight[:, 0, 0]
    mixed = sum(padded[:, shift : shift + 7] * weight[:, shift] for shift in range(3)) + block.mix.bias
    normed = (mixed - mixed.mean(-1, keepdim=True)) / (mixed.var(-1, correction=0, keepdim=True) + 1e-6).sqrt()
    inner = normed @ block.rise.weight.T + block.rise.bias
    inner = 0.5 * inner * (1 + torch.erf(inner / math.sqrt(2)))
    expected = x + 0.5 * (inner @ block.fall.weight.T + block.fall.bias)
    torch.testing.assert_close(block(x), expected, rtol=1e-4, atol=1e-5)


def test_an_even_kernel_has_no_middle():
    with pytest.raises(ValueError, match="odd kernel_size, found 4"):
        DepthwiseConv(3, 4)


def test_features_have_finite_gradients_in_silence():
    spectra = torch.zeros(1, 1, 2, 5, dtype=torch.complex64, requires_grad=True)
    features_of(spectra).sum().backward()
    assert torch.isfinite(torch.view_as_real(spectra.grad)).all()


def test_numbers_are_read_as_log_magnitudes_and_phases():
    numbers = torch.tensor([[[0.0, math.log(3.0), 100.0, 0.0, math.pi / 2, math.pi]]])
    expected = torch.tensor([[[1.0, 3.0j, -math.exp(LARGEST_LOG)]]])
    torch.testing.assert_close(spectra_of(numbers), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("wrong", [{"window": 320}, {"window": 321}, {"kernel_size": 4}, {"direct_coefficients": 129}])
def test_sizes_that_do_not_fit_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"found {next(iter(wrong.values()))}"):
        parse_config(SpectralConfig, wrong, "network")


def test_an_odd_hop_has_no_direct_coefficients():
    with pytest.raises(ConfigError, match="even hop_length for direct_coefficients, found 7"):
        parse_config(SpectralConfig, {"hop_length": 7, "window": 21, "direct_coefficients": 1}, "network")
