"""The codecs without weights: fingerprints and codes that must not change, and exactness on both grids."""

from hashlib import sha256

import numpy as np
import pytest
import torch
from torch import Tensor

from solfa.codecs.families.linear import LinearOptions
from solfa.codecs.families.mulaw import MulawOptions
from solfa.codecs.families.quantized import WaveformCodec
from solfa.codecs.protocol import Codec, Encoded
from solfa.errors import ConfigError


def digest(array: Tensor) -> str:
    return sha256(array.numpy().tobytes()).hexdigest()[:16]


def ramp(first: float, last: float, count: int) -> Tensor:
    """Give what `torch.linspace` gives where processors multiply and add in one step, to the bit on all of them."""
    begin, end = np.float32(first), np.float32(last)
    step, places = float((end - begin) / np.float32(count - 1)), np.arange(count)
    from_end = float(end) - step * (count - 1 - places)
    return torch.from_numpy(np.where(places < count // 2, float(begin) + step * places, from_end).astype(np.float32))


@pytest.mark.parametrize(
    ("options", "fingerprint", "codes", "audio"),
    [
        (MulawOptions(), "776bc4afd0e9036a", "5e5e7a0f85c8d712", "f04f16947cfa4ead"),
        (MulawOptions(bits=16, sample_rate=24000), "fdcd7f6fbe03ba6d", "c564252ef82f8770", "5ef13a446e6b5e28"),
        (
            MulawOptions(bits=12, sample_rate=22050, num_channels=2),
            "634209eeb7419406", "5c77e4634263ee7d", "ae1ffb4c5b41de77",
        ),
    ],
)  # fmt: skip
def test_datasets_that_were_written_with_mulaw_stay_valid(
    options: MulawOptions, fingerprint: str, codes: str, audio: str
) -> None:
    codec = WaveformCodec(options)
    assert codec.fingerprint.startswith(fingerprint)
    encoded = codec.encode(ramp(-1.1, 1.1, 5001).repeat(2, codec.num_channels, 1))
    assert digest(encoded.array) == codes
    assert digest(codec.decode(encoded)) == audio


def test_linear_describes_itself_as_any_codec_does() -> None:
    codec = WaveformCodec(LinearOptions(num_channels=2))
    assert isinstance(codec, Codec)
    assert (codec.name, codec.spec) == ("linear", "linear:bits=16,sample_rate=16000,num_channels=2")
    assert codec.description == {
        "family": "linear",
        "options": {"bits": 16, "sample_rate": 16000, "num_channels": 2},
    }
    assert (codec.frame_rate, codec.hop_length, codec.num_codebooks, codec.codebook_size) == (16000.0, 1, 2, 65536)


def test_the_grid_changes_the_fingerprint() -> None:
    codecs = [WaveformCodec(MulawOptions(bits=8)), WaveformCodec(LinearOptions(bits=8)), WaveformCodec(LinearOptions())]
    assert len({codec.fingerprint for codec in codecs}) == 3


@pytest.mark.parametrize("options", [MulawOptions(bits=16, num_channels=2), LinearOptions(num_channels=2)])
def test_every_class_is_exact_through_the_protocol(options: MulawOptions | LinearOptions) -> None:
    codec = WaveformCodec(options)
    classes = torch.arange(2**16).reshape(1, -1, 2)
    audio = codec.decode(Encoded(classes, 2**15))
    assert audio.shape == (1, 2, 2**15) and audio.abs().max() == 1
    assert torch.equal(codec.encode(audio).array, classes)


def test_linear_is_as_near_to_the_audio_as_half_a_step() -> None:
    codec = WaveformCodec(LinearOptions(bits=10))
    audio = torch.rand(3, 1, 700, generator=torch.Generator().manual_seed(0)) * 2 - 1
    decoded = codec.decode(codec.encode(audio))
    assert (decoded - audio).abs().max() <= 1 / 1023 + 1e-7
    assert torch.equal(codec.encode(decoded).array, codec.encode(audio).array)


def test_audio_with_other_channels_is_refused_in_the_name_of_the_codec() -> None:
    with pytest.raises(ConfigError, match=r"codec linear: expected .*\[B, 1, N >= 1\], found \[1, 3, 50\]"):
        WaveformCodec(LinearOptions()).encode(torch.zeros(1, 3, 50))
