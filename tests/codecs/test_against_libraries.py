"""The same weights in the library itself and in Solfa: identical codes, latents and audio.

In float64: the faster encoders round otherwise than the library's, which in float32 may choose another code.
"""

import json
import warnings
from pathlib import Path

import pytest
import torch

from solfa.codecs.catalogue import load_codec
from tests.codecs import tiny
from tests.codecs.double import in_double


def noise(channels: int, num_samples: int, batch: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return 0.3 * torch.randn(batch, channels, num_samples, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("variant", ["24khz", "32khz"])
@pytest.mark.parametrize("num_codebooks", [2, 4])
def test_encodec_gives_the_codes_of_the_library(variant: str, num_codebooks: int, tmp_path: Path) -> None:
    from transformers import EncodecModel

    path = tiny.make_encodec(tmp_path / "e", variant)
    model = EncodecModel.from_pretrained(path).eval().double()
    codec = in_double(load_codec(path, num_codebooks=num_codebooks))
    audio = noise(1, 1234)
    with torch.no_grad():
        theirs = model.encode(audio, bandwidth=model.config.target_bandwidths[num_codebooks // 4])
        decoded = model.decode(theirs.audio_codes, theirs.audio_scales).audio_values
    ours = codec.encode(audio)
    assert torch.equal(ours.array, theirs.audio_codes[0].transpose(1, 2))
    assert torch.equal(codec.decode(ours), decoded[..., :1234].float())


@pytest.mark.parametrize("num_samples", [300, 480 + 456, 456 + 24 + 456 * 2, 456 * 2 + 470])
def test_chunked_encodec_gives_the_codes_scales_and_audio_of_the_library(num_samples: int, tmp_path: Path) -> None:
    # Lengths at which the library's own chunks stack; at others it fails, and Solfa must not.
    from transformers import EncodecModel

    path = tiny.make_encodec(tmp_path / "e", "48khz")
    model = EncodecModel.from_pretrained(path).eval().double()
    codec = in_double(load_codec(path))
    audio = noise(2, num_samples) * torch.linspace(0.1, 1, num_samples)
    with torch.no_grad():
        theirs = model.encode(audio, bandwidth=model.config.target_bandwidths[-1])
        decoded = model.decode(
            theirs.audio_codes, theirs.audio_scales, last_frame_pad_length=theirs.last_frame_pad_length
        ).audio_values
    ours = codec.encode(audio)
    joined = torch.cat([chunk.transpose(1, 2) for chunk in theirs.audio_codes], dim=1)
    real = joined.shape[1] - theirs.last_frame_pad_length
    assert torch.equal(ours.array, joined[:, :real])
    assert ours.scales is not None and torch.equal(ours.scales, torch.cat(theirs.audio_scales, dim=1))
    assert torch.equal(codec.decode(ours), decoded[..., :num_samples].float())


def test_dac_gives_the_codes_of_the_library(tmp_path: Path) -> None:
    from transformers import DacModel

    path = tiny.make_dac(tmp_path / "d")
    model = DacModel.from_pretrained(path).eval().double()
    codec = in_double(load_codec(path))
    audio = noise(1, 1190)
    with torch.no_grad():
        theirs = model.encode(torch.nn.functional.pad(audio, (0, 10))).audio_codes
        decoded = model.decode(audio_codes=theirs).audio_values
    ours = codec.encode(audio)
    assert torch.equal(ours.array, theirs.transpose(1, 2))
    assert torch.equal(codec.decode(ours)[:, 0], decoded[:, :1190].float())


def test_mimi_gives_the_codes_of_the_library(tmp_path: Path) -> None:
    from transformers import MimiModel

    path = tiny.make_mimi(tmp_path / "m")
    model = MimiModel.from_pretrained(path).eval().double()
    codec = in_double(load_codec(path, num_codebooks=3))
    audio = noise(1, 1234)
    with torch.no_grad():
        theirs = model.encode(audio, num_quantizers=3).audio_codes
        decoded = model.decode(theirs).audio_values
    ours = codec.encode(audio)
    assert torch.equal(ours.array, theirs.transpose(1, 2))
    assert torch.equal(codec.decode(ours), decoded[..., :1234].float())


def test_oobleck_gives_the_posterior_of_the_library(tmp_path: Path) -> None:
    from diffusers import AutoencoderOobleck

    path = tiny.make_oobleck(tmp_path / "o")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model = AutoencoderOobleck.from_pretrained(path).eval().double()
    codec = in_double(load_codec(path, with_scale=True))
    audio = noise(2, 1200)[:1]  # on CPUs clips are encoded one by one, and a batch would be rounded differently
    with torch.no_grad():
        posterior = model.encode(audio).latent_dist
        decoded = model.decode(posterior.mode().float().double()).sample
    ours = codec.encode(audio)
    assert torch.equal(ours.array, torch.cat([posterior.mean, posterior.scale], dim=1).transpose(1, 2).float())
    audible = decoded.shape[-1]
    assert audible < 1200, "the odd stride is there to leave the end short"
    assert torch.equal(codec.decode(ours)[..., :audible], decoded.float())
    assert (codec.decode(ours)[..., audible:] == 0).all()


def test_the_published_shape_of_encodec_32khz_is_what_musicgen_reads() -> None:
    from transformers import EncodecConfig

    config = EncodecConfig(
        sampling_rate=32_000, upsampling_ratios=[8, 5, 4, 4], target_bandwidths=[2.2], codebook_size=2048
    )
    assert (config.hop_length, config.num_quantizers, config.frame_rate) == (640, 4, 50)


def test_a_checkpoint_saved_in_half_precision_runs_in_float32(tmp_path: Path) -> None:
    from transformers import DacModel

    model = DacModel.from_pretrained(tiny.make_dac(tmp_path / "d"))
    model.half().save_pretrained(tmp_path / "half")
    assert json.loads((tmp_path / "half" / "config.json").read_text())["dtype"] == "float16"
    codec = load_codec(tmp_path / "half")
    assert {parameter.dtype for parameter in codec.model.parameters()} == {torch.float32}  # type: ignore[attr-defined]
    assert codec.description["precision"] == "fp32"
