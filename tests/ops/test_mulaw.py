"""Mu-law against its definition, and exactness at every bit depth."""

import math

import pytest
import torch

from solfa.ops.mulaw import mulaw_decode, mulaw_encode

BITS = range(2, 17)


def class_slowly(x: float, num_classes: int) -> int:
    mu = num_classes - 1
    x = min(1.0, max(-1.0, x))
    bent = math.copysign(math.log(1 + mu * abs(x)) / math.log(1 + mu), x)
    return min(range(num_classes), key=lambda place: (abs(-1 + 2 * place / mu - bent), -place))


@pytest.mark.parametrize("bits", BITS)
def test_every_class_survives_decoding_and_encoding(bits: int) -> None:
    classes = torch.arange(2**bits)
    decoded = mulaw_decode(classes, 2**bits)
    assert decoded.dtype == torch.float32
    assert torch.equal(mulaw_encode(decoded, 2**bits), classes)
    assert torch.equal(decoded, -decoded.flip(0)) and (decoded.diff() > 0).all()
    assert decoded[-1] == 1


@pytest.mark.parametrize("bits", [2, 3, 8])
def test_encoding_is_the_nearest_value_of_the_bent_grid(bits: int) -> None:
    audio = torch.linspace(-1.2, 1.2, 301)
    expected = [class_slowly(x, 2**bits) for x in audio.double().tolist()]
    assert mulaw_encode(audio, 2**bits).tolist() == expected


@pytest.mark.parametrize("bits", BITS)
def test_silence_is_one_of_the_two_quietest_values(bits: int) -> None:
    silent = mulaw_encode(torch.tensor([0.0, -0.0]), 2**bits)
    assert silent.tolist() == [2 ** (bits - 1)] * 2
    grid = mulaw_decode(torch.arange(2**bits), 2**bits)
    assert mulaw_decode(silent, 2**bits)[0] == grid.abs().min()


def test_what_is_too_loud_is_clipped() -> None:
    audio = torch.tensor([-7.0, -1.0, 1.0, 7.0])
    assert mulaw_encode(audio, 256).tolist() == [0, 0, 255, 255]


def test_eight_bits_keep_a_signal_within_the_steps_of_the_grid() -> None:
    audio = torch.sin(torch.linspace(0, 50, 4000))
    error = (mulaw_decode(mulaw_encode(audio, 256), 256) - audio).abs()
    assert (error <= 0.5 * (audio.abs() + 1 / 255) * (256 ** (2 / 255) - 1) + 1e-6).all()
