"""SEANet: the numbers of transformers' EnCodec, lengths, causality, and parts that can be left out."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from transformers import EncodecConfig, EncodecModel

from solfa.nn.activations import Snake, SnakeActivation
from solfa.nn.seanet import SeanetConfig, SeanetDecoder, SeanetEncoder

SMALL: dict[str, Any] = {"num_filters": 4, "dim": 6, "strides": (5, 4, 2), "lstm_layers": 1}
THEIRS: dict[str, Any] = {"num_filters": 4, "hidden_size": 6, "upsampling_ratios": [5, 4, 2]}

VARIANTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"causal": True, "conv_shortcut": True, "lstm_layers": 2},
        {"use_causal_conv": True, "use_conv_shortcut": True, "num_lstm_layers": 2},
    ),
    ({"causal": False}, {"use_causal_conv": False, "use_conv_shortcut": False, "num_lstm_layers": 1}),
    (
        {"causal": False, "num_residual_layers": 3, "dilation_base": 3, "residual_kernel_size": 5, "compress": 1},
        {
            "use_causal_conv": False,
            "use_conv_shortcut": False,
            "num_lstm_layers": 1,
            "num_residual_layers": 3,
            "dilation_growth_rate": 3,
            "residual_kernel_size": 5,
            "compress": 1,
        },
    ),
    (
        {"causal": True, "pad_mode": "zero", "trim_right_ratio": 0.5, "kernel_size": 5, "last_kernel_size": 3},
        {
            "use_causal_conv": True,
            "use_conv_shortcut": False,
            "num_lstm_layers": 1,
            "pad_mode": "constant",
            "trim_right_ratio": 0.5,
            "kernel_size": 5,
            "last_kernel_size": 3,
        },
    ),
]


def latents_of(audio: Tensor, **changes: Any) -> Tensor:
    torch.manual_seed(3)
    encoder = SeanetEncoder(SeanetConfig(**{**SMALL, **changes}), audio.shape[1])
    with torch.no_grad():
        return encoder(audio)


@pytest.mark.parametrize(("ours", "theirs"), VARIANTS)
@pytest.mark.parametrize("num_channels", [1, 2])
def test_same_numbers_as_transformers_on_the_same_weights(
    ours: dict[str, Any], theirs: dict[str, Any], num_channels: int
) -> None:
    reference = EncodecModel(EncodecConfig(**THEIRS, **theirs, audio_channels=num_channels)).eval()
    config = SeanetConfig(**{**SMALL, **ours})
    encoder, decoder = SeanetEncoder(config, num_channels), SeanetDecoder(config, num_channels)
    encoder.load_state_dict(reference.encoder.state_dict())
    decoder.load_state_dict(reference.decoder.state_dict())
    with torch.no_grad():
        for num_samples in (1, 3, 39, 40, 41, 500, 1023):
            audio = torch.randn(2, num_channels, num_samples)
            latents = encoder(audio)
            assert (latents - reference.encoder(audio)).abs().max() < 1e-5
            assert (decoder(latents) - reference.decoder(latents)).abs().max() < 1e-5


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lstm_layers", [0, 1])
def test_frames_are_counted_up_and_samples_are_whole_frames(causal: bool, lstm_layers: int) -> None:
    config = SeanetConfig(**{**SMALL, "causal": causal, "lstm_layers": lstm_layers, "strides": (3, 2)})
    encoder, decoder = SeanetEncoder(config, 1), SeanetDecoder(config, 1)
    for num_samples in (*range(1, 26), 100):
        latents = encoder(torch.randn(1, 1, num_samples))
        assert latents.shape == (1, 6, -(-num_samples // config.hop_length))
        assert decoder(latents).shape == (1, 1, latents.shape[-1] * config.hop_length)


@pytest.mark.parametrize("frame", [0, 1, 4, 9])
def test_a_causal_encoder_with_zero_padding_never_looks_ahead(frame: int) -> None:
    hop_length = SeanetConfig(**SMALL).hop_length
    audio = torch.randn(1, 1, 12 * hop_length)
    changed = audio.clone()
    changed[..., (frame + 1) * hop_length :] = torch.randn_like(changed[..., (frame + 1) * hop_length :])
    before, after = (latents_of(x, causal=True, pad_mode="zero") for x in (audio, changed))
    assert torch.equal(before[..., : frame + 1], after[..., : frame + 1])
    assert not torch.equal(before[..., frame + 1], after[..., frame + 1])


def test_a_causal_encoder_with_reflected_padding_looks_ahead_only_at_the_start() -> None:
    hop_length = SeanetConfig(**SMALL).hop_length
    audio = torch.randn(1, 1, 24 * hop_length)
    changed = audio.clone()
    changed[..., 12 * hop_length :] += 1.0
    before, after = (latents_of(x, causal=True) for x in (audio, changed))
    assert torch.equal(before[..., :12], after[..., :12])
    early = audio.clone()
    early[..., 2 * hop_length :] += 1.0
    assert not torch.equal(before[..., :2], latents_of(early, causal=True)[..., :2])


def test_an_encoder_that_is_not_causal_looks_ahead() -> None:
    audio = torch.randn(1, 1, 480)
    changed = audio.clone()
    changed[..., 240:] += 1.0
    before, after = (latents_of(x, causal=False, lstm_layers=0) for x in (audio, changed))
    assert not torch.equal(before[..., 5], after[..., 5])


def test_a_causal_decoder_with_zero_padding_never_looks_ahead() -> None:
    config = SeanetConfig(**{**SMALL, "causal": True, "pad_mode": "zero"})
    decoder, latents = SeanetDecoder(config, 1), torch.randn(1, 6, 9)
    changed = latents.clone()
    changed[..., 5:] += 1.0
    known = 5 * config.hop_length
    with torch.no_grad():
        assert torch.equal(decoder(latents)[..., :known], decoder(changed)[..., :known])


def test_snake_and_no_weight_norm_and_no_lstm_are_parts_like_any_other() -> None:
    config = SeanetConfig(**{**SMALL, "activation": Snake(), "weight_norm": False, "lstm_layers": 0})
    encoder = SeanetEncoder(config, 1)
    assert any(isinstance(module, SnakeActivation) for module in encoder.modules())
    assert not any("original" in name or "lstm" in name for name in encoder.state_dict())
    encoder(torch.randn(1, 1, 100)).sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"strides": ()}, "strides"),
        ({"compress": 9, "num_filters": 4}, r"compress .*num_filters \(4\), found 9"),
        ({"causal": False, "trim_right_ratio": 0.5}, "trim_right_ratio .*0.5"),
    ],
)
def test_settings_that_do_not_fit_are_refused(values: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        SeanetConfig(**values)
