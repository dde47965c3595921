"""EnCodec checkpoints: the codes and the audio of transformers, training from there, and what is refused."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import EncodecModel

from solfa.errors import ConfigError
from solfa.models.codec.bottlenecks import Rvq
from solfa.models.codec.codec_files import load_codec_model, save_codec_model
from solfa.models.codec.encodec_start import load_encodec
from tests.models.codec.tiny_codec import HOP, K, V, write_encodec


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("encodec")
    return {variant: write_encodec(folder / variant, variant) for variant in ("24khz", "32khz", "stereo", "48khz")}


@pytest.mark.parametrize("variant", ["24khz", "32khz", "stereo"])
def test_codes_and_audio_are_those_of_transformers(variant: str, checkpoints: dict[str, Path]) -> None:
    # In float64 no two codes are tied by rounding, so equal mathematics means equal codes on every CPU.
    theirs = EncodecModel.from_pretrained(checkpoints[variant]).eval().double()
    ours = load_encodec(checkpoints[variant]).double()
    with torch.no_grad():
        for num_samples in (1, 7, HOP, 10 * HOP + 3, 4000):
            audio = 0.3 * torch.randn(2, ours.config.num_channels, num_samples, dtype=torch.float64)
            expected = theirs.encode(audio)
            codes = ours.encode(audio)
            assert torch.equal(codes.permute(0, 2, 1), expected.audio_codes[0])
            sound = theirs.decode(expected.audio_codes, expected.audio_scales).audio_values[..., :num_samples]
            assert (ours.decode(codes, num_samples) - sound).abs().max() < 1e-12
            assert (ours(audio).audio - sound).abs().max() < 1e-12
    assert all(len(codes[..., k].unique()) > V // 2 for k in range(K))


def test_the_config_is_that_of_the_checkpoint(checkpoints: dict[str, Path]) -> None:
    config = load_encodec(checkpoints["32khz"]).config
    assert (config.sample_rate, config.hop_length, config.num_codebooks, config.codebook_size) == (32000, HOP, K, V)
    assert not config.network.causal and load_encodec(checkpoints["24khz"]).config.network.causal


def test_older_names_of_weight_norms_load_equally(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    tensors = load_file(checkpoints["24khz"] / "model.safetensors")
    newer = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
    for name in list(tensors):
        for new, old in newer.items():
            if name.endswith(new):
                tensors[name.removesuffix(new) + old] = tensors.pop(name)
    assert any(name.endswith("weight_g") for name in tensors)
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_bytes((checkpoints["24khz"] / "config.json").read_bytes())
    expected = load_encodec(checkpoints["24khz"]).state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in load_encodec(tmp_path).state_dict().items())


def test_training_goes_on_from_the_codebooks_of_the_checkpoint(checkpoints: dict[str, Path]) -> None:
    model = load_encodec(checkpoints["24khz"], rvq=Rvq(num_codebooks=2, codebook_size=V, decay=0.99, expire_below=0.0))
    before = {name: tensor.clone() for name, tensor in model.bottleneck.state_dict().items()}
    assert before["quantizer.counts"].min() >= 1 and before["quantizer.codebooks"].shape[0] == 2
    audio = 0.3 * torch.randn(2, 1, 2000)
    made = model.train()(audio)
    ((made.audio - audio).square().mean() + made.bottleneck.loss).backward()
    moved = (model.bottleneck.quantizer.codebooks - before["quantizer.codebooks"]).abs().max()
    # A start from scratch would put them elsewhere; a hundredth of the way is how far a step goes.
    assert 0 < moved < 0.3 * before["quantizer.codebooks"].abs().max()


def test_fewer_codebooks_are_the_first_ones(checkpoints: dict[str, Path]) -> None:
    whole = load_encodec(checkpoints["24khz"])
    few = load_encodec(checkpoints["24khz"], rvq=Rvq(num_codebooks=2, codebook_size=V))
    audio = 0.3 * torch.randn(1, 1, 2000)
    assert torch.equal(few.encode(audio), whole.encode(audio, num_codebooks=2))


@pytest.mark.parametrize(
    "rvq",
    [
        Rvq(num_codebooks=K + 1, codebook_size=V),
        Rvq(num_codebooks=K, codebook_size=2 * V),
        Rvq(num_codebooks=K, codebook_size=V, codebook_dim=3),
    ],
)
def test_a_bottleneck_that_the_checkpoint_does_not_have_is_refused(rvq: Rvq, checkpoints: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match=f"up to {K} codebooks of {V} .*found"):
        load_encodec(checkpoints["24khz"], rvq=rvq)


def test_a_model_of_chunks_and_loudness_is_refused(checkpoints: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match=r"normalize False, found True; .*24 kHz"):
        load_encodec(checkpoints["48khz"])


def test_a_missing_tensor_is_named(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    tensors = load_file(checkpoints["24khz"] / "model.safetensors")
    del tensors["quantizer.layers.1.codebook.embed"], tensors["decoder.layers.0.conv.bias"]
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_bytes((checkpoints["24khz"] / "config.json").read_bytes())
    with pytest.raises(ConfigError, match=r"missing decoder\.layers\.0\.conv\.bias, quantizer\.layers\.1\.codebook"):
        load_encodec(tmp_path)


def test_another_kind_of_checkpoint_is_refused(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    config = json.loads((checkpoints["24khz"] / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "dac"}))
    with pytest.raises(ConfigError, match=r"model_type: .*'encodec', found 'dac'"):
        load_encodec(tmp_path)


def test_it_can_be_saved_as_a_codec_of_our_own(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    model, audio = load_encodec(checkpoints["32khz"]), 0.3 * torch.randn(1, 1, 900)
    save_codec_model(model, tmp_path / "codec")
    with torch.no_grad():
        assert torch.equal(load_codec_model(tmp_path / "codec")(audio).audio, model(audio).audio)
