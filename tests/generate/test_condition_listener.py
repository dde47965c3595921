"""A listener beside a model: it decides among candidates that were told what it tells, and travels with the model."""

from pathlib import Path
from typing import Any

import pytest
import torch

import solfa
from solfa.errors import ConfigError
from solfa.files.digest import file_sha256
from solfa.generate.language_model import LanguageModel
from solfa.models.conditioners.key_names import KEYS, KeyName
from solfa.models.listener.listener_files import LISTENER_FILES
from solfa.models.lm.candidates import best_candidate, blind_log_probs
from tests.generate.tiny_music_model import export_tiny_music, put_listener


def generator_in(folder: Path) -> LanguageModel:
    generator = solfa.load_model(folder, device="cpu").generator
    assert isinstance(generator, LanguageModel)
    return generator


def test_it_decides_if_its_condition_is_told_and_the_model_itself_otherwise(tmp_path: Path) -> None:
    folder = export_tiny_music(tmp_path / "model", has_key=True)
    alone = generator_in(folder)
    listener = put_listener(folder)
    listening = generator_in(folder)
    torch.manual_seed(0)
    codes = torch.randint(0, listener.config.codebook_size, (16, 2, 20))
    chosen = set()
    for key in KEYS:
        told = {"description": f"slow piano in {key}", "key": f"slow piano in {key}"}
        conditioners = alone.network.conditioners
        nats = blind_log_probs(alone.network.lm, conditioners.checked([told, {}])(), codes)
        better = (nats[:, 0] - nats[:, 1]).topk(12).indices.tolist()
        heard = listener(codes).softmax(dim=1).view(-1, 2, 12).sum(dim=1)[:, key.tonic].tolist()
        assert listening._choose(told, codes) == max(better, key=lambda place: heard[place])
        chosen.add(listening._choose(told, codes))
    assert len(chosen) > 1, "keys differ"
    told = {"description": "slow piano", "key": "slow piano"}
    rows = alone.network.conditioners.checked([told, {}])()
    expected = best_candidate(blind_log_probs(alone.network.lm, rows, codes))
    assert listening._choose(told, codes) == alone._choose(told, codes) == expected


def test_it_tells_the_probability_of_what_was_told(tmp_path: Path) -> None:
    folder = export_tiny_music(tmp_path / "model", has_key=True)
    listener = put_listener(folder)
    heard_by, codes = generator_in(folder).listener, torch.randint(0, 9, (3, 2, 20))
    assert heard_by is not None
    both = [KEYS.index(KeyName(1, mode)) for mode in ("major", "minor")]
    probabilities = listener(codes).softmax(dim=1)[:, both].sum(dim=1)
    for spelled in ("C sharp minor", "organ in D flat minor, 90 bpm"):
        found = heard_by.log_probs({"key": spelled}, codes)
        assert found is not None and torch.allclose(found.exp(), probabilities)
    assert heard_by.log_probs({"key": "rock drums"}, codes) is None and heard_by.log_probs({}, codes) is None


def test_it_travels_with_the_model_and_its_clips_name_it(tmp_path: Path) -> None:
    folder = export_tiny_music(tmp_path / "model", has_key=True)
    assert "listener_sha256" not in solfa.load_model(folder, device="cpu").provenance
    put_listener(folder)
    exported = solfa.export_model(folder, tmp_path / "exported", half=True)
    for name in LISTENER_FILES:
        assert (exported / name).read_bytes() == (folder / name).read_bytes()
    assert "| listener | tells key; " in (exported / "README.md").read_text()
    model = solfa.load_model(exported, device="cpu")
    assert model.provenance["listener_sha256"] == file_sha256(folder / LISTENER_FILES[1])
    (clip,) = model.generate("slow piano in A minor", seconds=0.2, candidates=3)
    assert clip.metadata["sampling"]["candidates"] == 3


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"condition": "mood"}, r"24 values of the condition 'mood', and the model has description .*, key \(key\)"),
        ({"condition": "description"}, "24 values of the condition 'description'"),
        ({"num_values": 12}, "12 values of the condition 'key'"),
        ({"num_codebooks": 4}, r"expected 2 codebooks of .*found 4 codebooks"),
        ({"codec_fingerprint": "0" * 64}, "found 2 codebooks of 1024 codes of the codec 0000000000000000;"),
    ],
)
def test_one_that_belongs_to_another_model_is_refused(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    folder = export_tiny_music(tmp_path / "model", has_key=True)
    put_listener(folder, **changes)
    with pytest.raises(ConfigError, match=expected):
        solfa.load_model(folder, device="cpu")
