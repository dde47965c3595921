"""Sets of clips that are made once and kept: a dataset is decoded again when its decoder has become another."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file, save_file

import solfa
from solfa.evaluate.clip_sets import of_dataset
from solfa.models.codec.codec_files import save_codec_model
from tests.models.codec.tiny_codec import tiny_model


def test_a_dataset_is_decoded_again_by_a_better_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path / "cache"))
    save_codec_model(tiny_model(), tmp_path / "codec")
    (tmp_path / "audio").mkdir()
    noise = torch.randn(1_000, generator=torch.Generator().manual_seed(0)).numpy() * 0.1
    soundfile.write(tmp_path / "audio" / "noise.wav", noise, 8_000)
    solfa.encode(tmp_path / "audio", tmp_path / "d.solfa", codec=solfa.load_codec(tmp_path / "codec"))

    def decoded() -> np.ndarray:
        place = of_dataset(solfa.open_dataset(tmp_path / "d.solfa")).place
        (path,) = Path(place).rglob("*.wav")
        return np.asarray(soundfile.read(path)[0])

    before = decoded()
    assert np.array_equal(decoded(), before)
    weights = tmp_path / "codec" / "model.safetensors"
    state = load_file(weights)
    last = max(name for name in state if name.startswith("decoder.") and name.endswith("bias"))
    state[last] += 0.1
    save_file(state, weights, metadata={"format": "pt"})
    assert not np.array_equal(decoded(), before)
