"""The codec that comes with Solfa: it is there without a network, it is what was released, and it stays so."""

import json
import shutil
import socket
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file, save_file

import solfa
from solfa.codecs.built_in.release import RELEASE, ROOT, read_release, released_fingerprint
from solfa.codecs.catalogue import NAMES, BuiltIn, load_codec
from solfa.codecs.checkpoint import Checkpoint
from solfa.codecs.default_name import DEFAULT_CODEC
from solfa.codecs.families.trained import OwnCodec
from solfa.codecs.protocol import Codec, decoding_fingerprint
from solfa.errors import ConfigError
from solfa.ops.audio_metrics import si_sdr
from tests.codecs.double import in_double
from tests.codecs.reference import make_reference, read_reference, reference_clip, reference_codes

NAME = "solfa_24khz"
BUILT_IN = [name for name, reference in NAMES.items() if isinstance(reference, BuiltIn)]
CONTINUOUS = "solfa_24khz_continuous"
PINNED = [NAME, f"{NAME}:beam=1"]
"""Whose codes never change: as they are chosen by default, and the nearest entries, which `solfa_tiny_music` knows."""


@pytest.fixture(scope="module")
def codec() -> Codec:
    return load_codec(NAME)


def noise(num_samples: int, batch: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(num_samples)
    return 0.3 * torch.randn(batch, 1, num_samples, generator=generator) * torch.linspace(0.2, 1, num_samples)


@pytest.mark.slow
def test_it_encodes_where_nobody_chose_a_codec(tmp_path: Path) -> None:
    (tmp_path / "audio").mkdir()
    soundfile.write(tmp_path / "audio" / "one.wav", noise(4_000)[0, 0].numpy(), 24_000)
    report = solfa.encode(tmp_path / "audio", tmp_path / "d.solfa", num_encoders=1, num_workers=0, device="cpu")
    assert DEFAULT_CODEC == NAME and report.codec == f"{NAME}:num_codebooks=8"


def test_it_is_loaded_offline_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError(f"asked the network for {arguments}")

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.chdir(tmp_path)
    loaded = load_codec(f"{NAME}:num_codebooks=4")
    assert loaded.spec == f"{NAME}:num_codebooks=4"
    assert loaded.encode(noise(1_000)).array.shape == (1, 4, 4)


def test_what_it_is(codec: Codec) -> None:
    assert (codec.name, codec.spec, codec.kind) == (NAME, f"{NAME}:num_codebooks=8", "codes")
    assert (codec.sample_rate, codec.num_channels, codec.hop_length, codec.frame_rate) == (24_000, 1, 320, 75.0)
    assert (codec.num_codebooks, codec.codebook_size) == (8, 1024)


def test_nothing_of_this_machine_gets_into_datasets(codec: Codec) -> None:
    assert str(ROOT) not in json.dumps([codec.name, codec.spec, dict(codec.description)])


@pytest.mark.parametrize("name", BUILT_IN)
def test_its_weights_are_small_enough_to_come_with_the_package(name: str) -> None:
    assert (ROOT / name / "model.safetensors").stat().st_size <= 12_000_000


def test_all_its_files_are_in_the_wheel() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["solfa.codecs.built_in"]
    packed = {path for pattern in patterns for path in ROOT.glob(pattern)}
    assert {path for name in BUILT_IN for path in (ROOT / name).iterdir()} <= packed


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_release_says_what_it_is(name: str) -> None:
    release = read_release(ROOT / name)
    assert release.name == name
    codec = load_codec(name)
    assert isinstance(codec, OwnCodec)
    assert release.fingerprint == released_fingerprint(codec)


def test_a_damaged_decoder_is_refused_though_codes_do_not_depend_on_it(tmp_path: Path) -> None:
    shutil.copytree(ROOT / NAME, tmp_path / NAME)
    path = tmp_path / NAME / "model.safetensors"
    state = load_file(path)
    state["decoder.last.bias"][0] += 0.5
    save_file(state, path, metadata={"format": "pt"})
    copied: Any = BuiltIn(NAME, tmp_path)
    with pytest.raises(ConfigError, match="reinstall Solfa"):
        copied.load({}, "cpu", "fp32")
    other = OwnCodec.from_checkpoint(Checkpoint(NAME, NAME, tmp_path / NAME), {})
    shipped = load_codec(NAME)
    assert other.fingerprint == shipped.fingerprint
    assert decoding_fingerprint(other) != decoding_fingerprint(shipped)


def test_four_codebooks_of_nearest_entries_are_the_first_four_of_eight(codec: Codec) -> None:
    fewer, audio = load_codec(NAME, num_codebooks=4, beam=1), noise(5_000)
    assert fewer.fingerprint != codec.fingerprint
    assert torch.equal(fewer.encode(audio).array, load_codec(NAME, beam=1).encode(audio).array[..., :4])
    assert fewer.decode(fewer.encode(audio)).shape == audio.shape


def test_a_wider_beam_is_another_codec_that_comes_nearer_to_the_latents(codec: Codec) -> None:
    audio = noise(24_000)
    latents = load_codec(NAME, latents=True).encode(audio).array
    codecs = [load_codec(NAME, beam=beam) for beam in (1, 4, 8)]
    errors = []
    for one in codecs:
        assert isinstance(one, OwnCodec)
        vectors = one.model.bottleneck.decode(one.encode(audio).array)
        errors.append(float((vectors.mT - latents).square().mean()))
    assert errors == sorted(errors, reverse=True)
    assert len({one.fingerprint for one in codecs}) == 3
    assert [one.spec for one in codecs] == [f"{NAME}:{beam}num_codebooks=8" for beam in ("beam=1,", "", "beam=8,")]
    assert codecs[1].fingerprint == codec.fingerprint


def test_a_beam_for_latents_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"beam: .*found latents; leave it out"):
        load_codec(NAME, beam=2, latents=True)


@pytest.mark.parametrize("num_codebooks", [0, 9])
def test_codebooks_that_it_does_not_have_are_refused(num_codebooks: int) -> None:
    with pytest.raises(ConfigError, match=rf"num_codebooks: .*found '?{num_codebooks}"):
        load_codec(f"{NAME}:num_codebooks={num_codebooks}")


def test_half_precision_is_another_codec_that_sounds_the_same(codec: Codec) -> None:
    low, encoded = load_codec(f"{NAME}:precision=bf16"), codec.encode(noise(24_000))
    assert low.fingerprint != codec.fingerprint
    assert low.encode(noise(640)).array.shape == (1, 2, 8)
    sounds = torch.stack([low.decode(encoded).flatten(), codec.decode(encoded).flatten()])
    assert torch.corrcoef(sounds)[0, 1] > 0.95


@pytest.mark.parametrize("num_samples", [1, 319, 320, 321, 1_281, 24_001])
def test_any_length_comes_back_as_it_was(codec: Codec, num_samples: int) -> None:
    audio = noise(num_samples)
    encoded = codec.encode(audio)
    assert encoded.array.shape == (1, -(-num_samples // 320), 8)
    assert 0 <= int(encoded.array.min()) <= int(encoded.array.max()) < 1024
    decoded = codec.decode(encoded)
    assert decoded.shape == audio.shape and decoded.isfinite().all()


def test_a_batch_equals_its_clips_one_by_one(codec: Codec) -> None:
    audio = noise(7_777, batch=3)
    alone = torch.cat([codec.encode(clip[None]).array for clip in audio])
    assert torch.equal(codec.encode(audio).array, alone)


def test_a_stereo_recording_is_encoded_as_the_mean_of_its_channels(codec: Codec, tmp_path: Path) -> None:
    stereo = noise(4_000, batch=2)[:, 0].numpy()
    (tmp_path / "audio").mkdir()
    soundfile.write(tmp_path / "audio" / "both.wav", stereo.T, 24_000, subtype="FLOAT")
    solfa.encode(tmp_path / "audio", tmp_path / "d.solfa", codec=codec)
    clip = solfa.open_dataset(tmp_path / "d.solfa")["both.wav"]
    mean = torch.from_numpy((stereo[0] + stereo[1]) / 2)[None, None]
    np.testing.assert_array_equal(clip.array, codec.encode(mean).array[0].numpy())


def flip_a_bit(directory: Path, place: int) -> None:
    content = bytearray((directory / "model.safetensors").read_bytes())
    content[place] ^= 1
    (directory / "model.safetensors").write_bytes(content)


def damage_a_weight(directory: Path) -> None:
    flip_a_bit(directory, 6_000_000)


def damage_the_header(directory: Path) -> None:
    flip_a_bit(directory, 20)


def cut(directory: Path) -> None:
    content = (directory / "model.safetensors").read_bytes()
    (directory / "model.safetensors").write_bytes(content[:-100])


def exchange_the_config(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    config["model"]["network"]["hop_length"] = 640
    (directory / "config.json").write_text(json.dumps(config))


def lose_the_release(directory: Path) -> None:
    (directory / RELEASE).unlink()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damage_a_weight, r"solfa_24khz: .*fingerprint .*found .*install Solfa"),
        (damage_the_header, r"model\.safetensors|weights"),
        (cut, r"model\.safetensors: "),
        (exchange_the_config, r"solfa_24khz: .*fingerprint .*found .*install Solfa"),
        (lose_the_release, r"release\.json: no such file"),
    ],
)
def test_damaged_and_exchanged_files_are_refused_with_one_sentence(
    damage: Callable[[Path], None], words: str, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / NAME, tmp_path / NAME)
    copied: Any = BuiltIn(NAME, tmp_path)
    assert copied.load({}, "cpu", "fp32").spec == f"{NAME}:num_codebooks=8"
    damage(tmp_path / NAME)
    with pytest.raises(ConfigError, match=words) as refused:
        copied.load({"num_codebooks": 2}, "cpu", "fp32")
    assert "\n" not in str(refused.value)


def test_the_continuous_one_gives_means_of_latents_that_come_back_as_sound() -> None:
    codec = load_codec(CONTINUOUS)
    # A hash of the weights and the architecture: what datasets of these latents have stored.
    assert codec.fingerprint == "16ca0a61cf8a8c21a413c2ed076b9480166f567f968dd6531a5bd165bd0bf164"
    assert (codec.kind, codec.latent_channels, codec.frame_rate, codec.spec) == ("latents", 32, 75.0, CONTINUOUS)
    audio = torch.from_numpy(reference_clip())[None, None]
    encoded = codec.encode(audio)
    assert torch.equal(encoded.array, codec.encode(audio).array)  # means: nothing is drawn
    decoded = codec.decode(encoded)
    # The decaying noise of the clip is not kept as a waveform; its tones are.
    assert decoded.shape == audio.shape and float(si_sdr(decoded, audio)) > 6


@pytest.mark.parametrize("name", PINNED)
def test_the_codes_of_a_reference_clip_never_change(name: str) -> None:
    """A name promises its codes: datasets and models made with it years ago must still mean the same sounds.

    The fingerprint is exact everywhere, because it is a hash of the weights and the architecture. Weights that are off
    by 1e-5, all of them and at random, change none of the codes (five draws), and float64 errs by 1e-12: these codes
    are the same on every processor.
    """
    pinned, codec = read_reference(name), load_codec(name)
    assert codec.fingerprint == pinned.fingerprint
    assert reference_codes(in_double(codec)) == pinned.codes


@pytest.mark.parametrize("name", PINNED)
def test_in_float32_the_codes_of_a_reference_clip_change_only_where_two_are_almost_equally_near(name: str) -> None:
    """Where two entries are almost equally near, the rounding of a processor may choose the other.

    The later codebooks of that frame follow it. Two of the thirty frames may differ so. Measured: none does on
    x86-64 with SSE, AVX2 or AVX-512, with one thread, two or four; every weight times 1 + 0.001 times
    a normal number changes none to six frames, 0.01 times it five to sixteen (eight seeds).
    """
    pinned, made = read_reference(name), make_reference(name)
    assert len(made.codes) == len(pinned.codes) == 30
    equal = sum(one == other for one, other in zip(made.codes, pinned.codes, strict=True))
    assert equal >= 28
