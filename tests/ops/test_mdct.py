"""The modified discrete cosine transform, its inverse and its lowest coefficients."""

import math

import pytest
import torch

from solfa.ops.mdct import from_mdct, to_mdct


@pytest.mark.parametrize("num_samples", [1, 8, 9, 100])
def test_all_coefficients_give_back_what_two_frames_hear(num_samples):
    hop = 8
    audio = torch.randn(3, num_samples, dtype=torch.float64)
    coefficients = to_mdct(audio, hop, hop)
    num_frames = math.ceil(num_samples / hop)
    assert coefficients.shape == (3, num_frames, hop)
    back = from_mdct(coefficients, hop)
    assert back.shape == (3, num_frames * hop)
    inner = slice(hop // 2, min(num_samples, num_frames * hop - hop // 2))
    torch.testing.assert_close(back[:, inner], audio[:, inner])


def test_a_coefficient_equals_its_definition():
    hop, frame = 6, 2
    audio = torch.randn(30, dtype=torch.float64)
    first = frame * hop - hop // 2
    slow = [
        math.sqrt(2 / hop)
        * sum(
            math.sin(math.pi * (n + 0.5) / (2 * hop))
            * float(audio[first + n])
            * math.cos(math.pi / hop * (n + 0.5 + hop / 2) * (k + 0.5))
            for n in range(2 * hop)
        )
        for k in range(4)
    ]
    torch.testing.assert_close(to_mdct(audio, hop, 4)[frame], torch.tensor(slow, dtype=torch.float64))


def test_the_lowest_coefficients_keep_a_low_tone_and_drop_a_high_one():
    hop, time = 64, torch.arange(64 * 20, dtype=torch.float64)
    for frequency, share in ((0.02, 1.0), (0.3, 0.0)):  # cycles per sample; 16 of 64 coefficients reach 0.125
        tone = (2 * math.pi * frequency * time).sin()[None]
        kept = from_mdct(to_mdct(tone, hop, 16), hop)[:, hop:-hop]
        torch.testing.assert_close(kept, share * tone[:, hop:-hop], rtol=0, atol=0.02)


@pytest.mark.parametrize(("hop", "num_coefficients"), [(7, 2), (8, 9), (8, 0)])
def test_what_has_no_such_transform_is_refused(hop, num_coefficients):
    with pytest.raises(ValueError, match=f"found {hop} and {num_coefficients}"):
        to_mdct(torch.zeros(16), hop, num_coefficients)
