"""Padding and trimming of convolutions against slow definitions."""

import pytest
import torch
import torch.nn.functional as F

from solfa.nn.padded_conv import PaddedConv1d, TrimmedConvTranspose1d, pad


def reflected(values: list[float], left: int, right: int) -> list[float]:
    """Mirror at both ends; where the clip is too short, zeros continue it first."""
    need = max(left, right) + 1
    longer = values + [0.0] * max(0, need - len(values))
    whole = longer[1 : left + 1][::-1] + longer + longer[-right - 1 : -1][::-1]
    return whole[: len(values) + left + right]


@pytest.mark.parametrize("num_samples", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(("left", "right"), [(0, 0), (3, 0), (2, 3), (6, 1), (0, 4)])
def test_reflection_of_short_clips_matches_the_definition(num_samples: int, left: int, right: int) -> None:
    values = [float(value) for value in range(1, num_samples + 1)]
    padded = pad(torch.tensor([[values]]), left, right, "reflect")
    assert padded[0, 0].tolist() == reflected(values, left, right)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("weight_norm", [True, False])
@pytest.mark.parametrize("stride", [1, 2, 5])
def test_a_convolution_and_its_transpose_keep_whole_frames(causal: bool, weight_norm: bool, stride: int) -> None:
    options = {"causal": causal, "weight_norm": weight_norm}
    down = PaddedConv1d(2, 3, 2 * stride, stride, pad_mode="reflect", **options)
    up = TrimmedConvTranspose1d(3, 2, 2 * stride, stride, trim_right_ratio=1.0, **options)
    for num_samples in (1, 2, 3, 9, 10, 11):
        frames = down(torch.randn(1, 2, num_samples))
        assert frames.shape == (1, 3, -(-num_samples // stride))
        assert up(frames).shape == (1, 2, frames.shape[-1] * stride)


def test_a_causal_convolution_is_a_plain_one_after_zeros() -> None:
    layer = PaddedConv1d(1, 1, 3, dilation=2, causal=True, pad_mode="constant", weight_norm=False)
    x = torch.randn(1, 1, 10)
    plain = F.conv1d(F.pad(x, (4, 0)), layer.conv.weight, layer.conv.bias, dilation=2)
    assert torch.equal(layer(x), plain)


def test_trim_right_ratio_says_which_end_is_cut() -> None:
    torch.manual_seed(0)
    whole = torch.nn.ConvTranspose1d(1, 1, 4, 2)
    for ratio, start in ((1.0, 0), (0.5, 1), (0.0, 2)):
        layer = TrimmedConvTranspose1d(1, 1, 4, 2, causal=True, trim_right_ratio=ratio, weight_norm=False)
        layer.conv.load_state_dict(whole.state_dict())
        x = torch.ones(1, 1, 3)
        assert torch.equal(layer(x), whole(x)[..., start : start + 6])
