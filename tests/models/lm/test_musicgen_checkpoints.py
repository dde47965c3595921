"""MusicGen's files: shards, older and torch files, the Hub's cache, and everything that does not fit."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import MusicgenForCausalLM

from solfa.errors import ConfigError
from solfa.models.lm.musicgen import load_musicgen, save_musicgen
from tests.models.tiny_musicgen import K, V, decoder_config, our_logits, their_logits


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(0, V + 1, (2, K, 13))


def drop_tensor(tensors: dict[str, Tensor]) -> None:
    del tensors["model.decoder.layers.1.fc2.weight"]


def add_tensor(tensors: dict[str, Tensor]) -> None:
    tensors["model.decoder.layers.3.fc2.weight"] = torch.zeros(2)


def cut_tensor(tensors: dict[str, Tensor]) -> None:
    tensors["lm_heads.2.weight"] = tensors["lm_heads.2.weight"][:-1].clone()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (drop_tensor, r"missing model\.decoder\.layers\.1\.fc2\.weight;"),
        (add_tensor, r"unexpected model\.decoder\.layers\.3\.fc2\.weight;"),
        (cut_tensor, r"shape lm_heads\.2\.weight \[15, 16\] instead of \[16, 16\]"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(
    change: Callable[[dict[str, Tensor]], None], fault: str, bare_musicgen: Path, tmp_path: Path
) -> None:
    tensors = load_file(bare_musicgen / "model.safetensors")
    change(tensors)
    shutil.copytree(bare_musicgen, tmp_path / "changed")
    save_file(tensors, tmp_path / "changed" / "model.safetensors")
    with pytest.raises(ConfigError, match=fault):
        load_musicgen(tmp_path / "changed")


def test_shards_and_torch_files_load_like_one_safetensors_file(
    bare_musicgen: Path, tokens: Tensor, tmp_path: Path
) -> None:
    expected = our_logits(load_musicgen(bare_musicgen), tokens, None)
    MusicgenForCausalLM.from_pretrained(bare_musicgen).save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    shutil.copytree(bare_musicgen, tmp_path / "torch", ignore=shutil.ignore_patterns("*.safetensors"))
    torch.save(load_file(bare_musicgen / "model.safetensors"), tmp_path / "torch" / "pytorch_model.bin")
    for name in ("shards", "torch"):
        assert torch.equal(our_logits(load_musicgen(tmp_path / name), tokens, None), expected)
    next((tmp_path / "shards").glob("*.safetensors")).unlink()
    with pytest.raises(ConfigError, match="shard index"):
        load_musicgen(tmp_path / "shards")
    torch.save({"model": Path()}, tmp_path / "torch" / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="code in it"):
        load_musicgen(tmp_path / "torch")


def test_tied_tensors_of_a_torch_file_can_be_written_out(whole_musicgen: Path, tmp_path: Path) -> None:
    shutil.copytree(whole_musicgen, tmp_path / "torch", ignore=shutil.ignore_patterns("*.safetensors"))
    tensors = load_file(whole_musicgen / "model.safetensors")
    tensors["text_encoder.encoder.embed_tokens.weight"] = tensors["text_encoder.shared.weight"]
    torch.save(tensors, tmp_path / "torch" / "pytorch_model.bin")
    loaded = load_musicgen(tmp_path / "torch")
    save_musicgen(loaded.model, tmp_path / "out", source=loaded.directory, text_projection=loaded.text_projection)
    assert load_file(tmp_path / "out" / "model.safetensors").keys() == tensors.keys()


def test_a_position_table_of_older_files_is_compared_and_computed(
    bare_musicgen: Path, tokens: Tensor, tmp_path: Path
) -> None:
    name = "model.decoder.embed_positions.weights"
    tensors = load_file(bare_musicgen / "model.safetensors")
    module = MusicgenForCausalLM(decoder_config()).model.decoder.embed_positions
    shutil.copytree(bare_musicgen, tmp_path / "old")
    save_file(tensors | {name: module.weights.clone()}, tmp_path / "old" / "model.safetensors")
    loaded = load_musicgen(tmp_path / "old")
    assert loaded.report.computed == (name,) and "1 computed" in str(loaded.report)
    assert torch.equal(our_logits(loaded, tokens, None), our_logits(load_musicgen(bare_musicgen), tokens, None))
    save_file(tensors | {name: module.weights + 0.1}, tmp_path / "old" / "model.safetensors")
    with pytest.raises(ConfigError, match=f"sinusoids in {name}"):
        load_musicgen(tmp_path / "old")


def test_half_precision_files_become_float32(bare_musicgen: Path, tmp_path: Path) -> None:
    MusicgenForCausalLM.from_pretrained(bare_musicgen).half().save_pretrained(tmp_path / "half")
    loaded = load_musicgen(tmp_path / "half")
    assert all(parameter.dtype == torch.float32 for parameter in loaded.model.parameters())
    save_musicgen(loaded.model, tmp_path / "saved", source=tmp_path / "half")
    assert MusicgenForCausalLM.from_pretrained(tmp_path / "saved").dtype == torch.float32


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"audio_channels": 2}, "mono.*found audio_channels 2"),
        ({"activation_function": "relu"}, "activation_function.*'gelu'"),
        ({"pad_token_id": 0}, "pad_token_id and bos_token_id 16"),
        ({"model_type": "musicgen_melody"}, "found 'musicgen_melody'; .*-melody"),
        ({"num_attention_heads": 5}, "dim .*num_heads"),
    ],
)
def test_an_architecture_that_is_not_this_one_is_refused(
    changes: dict[str, Any], fault: str, bare_musicgen: Path, tmp_path: Path
) -> None:
    shutil.copytree(bare_musicgen, tmp_path / "other")
    config = json.loads((bare_musicgen / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps({**config, **changes}))
    with pytest.raises(ConfigError, match=fault):
        load_musicgen(tmp_path / "other")


def test_what_transformers_does_not_use_changes_nothing_and_other_dropouts_are_said(
    bare_musicgen: Path, tokens: Tensor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(bare_musicgen, tmp_path / "other")
    config = json.loads((bare_musicgen / "config.json").read_text())
    config |= {"scale_embedding": True, "layerdrop": 0.2, "dropout": 0.3}
    (tmp_path / "other" / "config.json").write_text(json.dumps(config))
    with caplog.at_level(logging.WARNING, logger="solfa"):
        loaded = load_musicgen(tmp_path / "other")
    assert "layerdrop 0.2" in caplog.text
    theirs = their_logits(tmp_path / "other", tokens, None)
    assert (our_logits(loaded, tokens, None) - theirs).abs().max() < 1e-4
    assert loaded.config.dropout == 0.3 and load_musicgen(tmp_path / "other", dropout=0.0).config.dropout == 0.0


def test_a_hub_id_is_loaded_from_the_cache_or_answered(
    whole_musicgen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    root = tmp_path / "models--someone--musicgen"
    shutil.copytree(whole_musicgen, root / "snapshots" / ("0" * 40))
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text("0" * 40)
    assert load_musicgen("someone/musicgen").report == load_musicgen(whole_musicgen).report
    with pytest.raises(ConfigError, match=r"someone/other: .*Hub.*network") as caught:
        load_musicgen("someone/other")
    assert isinstance(caught.value.__cause__, OSError)


def test_a_place_without_a_checkpoint_is_answered(whole_musicgen: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such directory"):
        load_musicgen(tmp_path / "nothing")
    with pytest.raises(ConfigError, match=r"config\.json: no such file"):
        load_musicgen(tmp_path)
    with pytest.raises(ConfigError, match=r"revision.*found 'main'"):
        load_musicgen(whole_musicgen, revision="main")
    shutil.copyfile(whole_musicgen / "config.json", tmp_path / "config.json")
    with pytest.raises(ConfigError, match=r"model\.safetensors or pytorch_model\.bin"):
        load_musicgen(tmp_path)
