"""From texts to codecs: what is understood, and what is answered with a sentence."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from solfa.codecs.catalogue import NAMES, load_codec
from solfa.codecs.protocol import Encoded
from solfa.codecs.spec import CodecSpec, parse_spec
from solfa.errors import ConfigError
from tests.codecs import tiny


def test_mulaw_takes_its_options_from_text_and_call() -> None:
    codec = load_codec("mulaw:bits=12,sample_rate=22050", num_channels=2)
    assert (codec.codebook_size, codec.sample_rate, codec.num_codebooks, codec.hop_length) == (4096, 22050, 2, 1)
    assert codec.spec == "mulaw:bits=12,sample_rate=22050,num_channels=2"
    default = load_codec("mulaw")
    assert (default.codebook_size, default.sample_rate, default.num_channels) == (256, 16000, 1)
    assert default.fingerprint == load_codec("mulaw:bits=8").fingerprint != codec.fingerprint


def test_mulaw_is_exact_through_the_protocol() -> None:
    codec = load_codec("mulaw:bits=16,num_channels=2")
    classes = torch.arange(2**16).reshape(1, -1, 2)
    audio = codec.decode(Encoded(classes, 2**15))
    assert torch.equal(codec.encode(audio).array, classes)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("encodec_24kz", "did you mean 'encodec_24khz'.*solfa_24khz, .*, mulaw"),
        ("", "empty"),
        ("//sig/0123abcd", "0123abcd"),
        ("mulaw:bits=1", "bits: .*greater than or equal to 2.*found '1'"),
        ("mulaw:bits=17", "bits: .*less than or equal to 16"),
        ("mulaw:num_channels=9", "num_channels: .*less than or equal to 8"),
        ("mulaw:bit=8", "did you mean 'bits'"),
        ("mulaw:bits=8,bits=9", "'bits' .*twice"),
        ("mulaw:8", "name:key=value"),
        ("mulaw:precision=fp16", "mulaw: precision"),
        ("mulaw:precision=fp8", "precision: expected fp32, fp16, bf16, found 'fp8'"),
        ("./no/such/folder", "no/such/folder: no such"),
        ("/no/such/model_config.json", r"model_config\.json: no such"),
    ],
)
def test_what_cannot_be_loaded_is_answered_with_a_sentence(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_codec(spec)


def test_an_option_with_two_values_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"bits: .*'8'.* 9"):
        load_codec("mulaw:bits=8", bits=9)
    assert load_codec("mulaw:bits=8", bits=8).codebook_size == 256


@pytest.mark.parametrize(
    ("spec", "model"),
    [
        ("encodec_32khz", "facebook/encodec_32khz"),
        ("stable_audio_open", "stabilityai/stable-audio-open-1.0"),
        ("someone/some-codec:num_codebooks=2", "someone/some-codec"),
    ],
)
def test_a_hub_model_that_is_not_here_is_answered_with_its_id(
    spec: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match=f"{model}: .*Hub") as caught:
        load_codec(spec)
    assert isinstance(caught.value.__cause__, OSError)


def test_a_hub_model_in_the_cache_is_loaded_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for model, make, folder in (("a/dac", tiny.make_dac, ""), ("a/pipeline", tiny.make_oobleck, "vae")):
        root = tmp_path / f"models--{model.replace('/', '--')}"
        make(root / "snapshots" / ("0" * 40) / folder)
        (root / "refs").mkdir()
        (root / "refs" / "main").write_text("0" * 40)
        codec = load_codec(model)
        assert codec.name == model and codec.spec.startswith(f"{model}:")
        assert codec.fingerprint == load_codec(root / "snapshots" / ("0" * 40)).fingerprint


def test_a_pipeline_folder_gives_its_autoencoder(tmp_path: Path) -> None:
    tiny.make_oobleck(tmp_path / "pipeline" / "vae")
    codec = load_codec(tmp_path / "pipeline")
    assert codec.kind == "latents"
    assert codec.fingerprint == load_codec(tmp_path / "pipeline" / "vae").fingerprint


def test_a_musicgen_means_its_audio_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tiny.make_encodec(tmp_path / "encodec", "32khz")
    root = tmp_path / "models--a--musicgen"
    folder = tiny.make_musicgen(root / "snapshots" / ("0" * 40), own)
    expected, codec = load_codec(own), load_codec(folder)
    assert codec.spec == f"{folder}:num_codebooks=4" and codec.fingerprint == expected.fingerprint
    audio = 0.3 * torch.randn(1, 1, 4000)
    assert torch.equal(codec.encode(audio).array, expected.encode(audio).array)
    assert load_codec(f"{folder}:num_codebooks=2").num_codebooks == 2
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert load_codec("a/musicgen").fingerprint == expected.fingerprint
    assert load_codec("a/musicgen").spec == "a/musicgen:num_codebooks=4"


def test_a_musicgen_without_its_codec_is_refused(tmp_path: Path) -> None:
    folder = tiny.make_musicgen(tmp_path / "whole", tiny.make_encodec(tmp_path / "encodec", "32khz"))
    tensors = load_file(folder / "model.safetensors")
    lost = next(name for name in tensors if name.startswith("audio_encoder.decoder."))
    save_file({name: tensor for name, tensor in tensors.items() if name != lost}, folder / "model.safetensors")
    with pytest.raises(ConfigError, match=f"missing {lost.removeprefix('audio_encoder.')}"):
        load_codec(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"expected model\.safetensors"):
        load_codec(folder)
    (folder / "config.json").write_text('{"model_type": "musicgen_decoder"}')
    with pytest.raises(ConfigError, match=r"language model alone.*encodec_32khz"):
        load_codec(folder)


def test_directories_that_are_no_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected .*config\.json"):
        load_codec(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ConfigError, match=r"config\.json .*encodec, dac, mimi.*found 'llama'"):
        load_codec(tmp_path)
    (tmp_path / "config.json").write_text("[")
    with pytest.raises(ConfigError, match="JSON"):
        load_codec(tmp_path)


def test_a_directory_without_weights_is_refused(tmp_path: Path) -> None:
    path = tiny.make_dac(tmp_path / "dac")
    (path / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"no weights.*\.safetensors"):
        load_codec(path)


def test_paths_with_awkward_characters_survive_the_spec(tmp_path: Path) -> None:
    folder = tmp_path / "a:bits=3" / "50%2C, ü"
    config = tiny.make_stable_audio_oobleck(folder)
    codec = load_codec(config, checkpoint=folder / "model.safetensors", precision="fp16")
    again = load_codec(codec.spec)
    assert again.fingerprint == codec.fingerprint
    dac = load_codec(tiny.make_dac(folder / "dac"), num_codebooks=2)
    assert load_codec(dac.spec).fingerprint == dac.fingerprint


def test_a_relative_directory_becomes_absolute_in_the_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.make_dac(tmp_path / "dac")
    monkeypatch.chdir(tmp_path)
    codec = load_codec("dac:num_codebooks=2")
    assert codec.spec == f"{tmp_path / 'dac'}:num_codebooks=2"
    assert codec.name == "dac"


@pytest.mark.parametrize(
    "spec", [CodecSpec("mulaw"), CodecSpec("x/y", {"a": "1", "b": "50%,x=y:z"}), CodecSpec("//sig/x", {"k": ""})]
)
def test_specs_are_read_back_as_written(spec: CodecSpec) -> None:
    assert parse_spec(str(spec)) == spec


def test_every_name_of_the_documentation_is_known() -> None:
    assert set(NAMES) == {
        "encodec_24khz", "encodec_32khz", "encodec_48khz", "dac_16khz", "dac_24khz", "dac_44khz", "mimi",
        "stable_audio_open", "stable_audio_3", "ace_step_48khz", "mulaw", "linear", "solfa_24khz",
        "solfa_24khz_continuous", "embedder",
    }  # fmt: skip
