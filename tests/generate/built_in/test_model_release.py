"""Models that come with Solfa: found by name, what was released or nothing, and made for the codec beside them."""

import json
from pathlib import Path

import pytest
import torch

import solfa
from solfa.codecs.built_in.release import Release, write_release
from solfa.codecs.catalogue import load_codec
from solfa.errors import ConfigError
from solfa.generate.base_weights import read_base
from solfa.generate.built_in import model_release as release
from solfa.generate.built_in.model_release import FILES, TINY_MUSIC, files_fingerprint, is_released
from tests.generate.tiny_music_model import export_tiny_music


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for models where there is none yet."""
    monkeypatch.setattr(release, "ROOT", tmp_path / "built_in")
    return tmp_path / "built_in"


def test_a_model_is_loaded_by_its_name_and_plays_a_text(package: Path, tmp_path: Path) -> None:
    exported = export_tiny_music(tmp_path / "exported")
    about = Release(name=TINY_MUSIC, version=1, fingerprint=files_fingerprint(exported))
    write_release(package / TINY_MUSIC, about, {name: (exported / name).read_bytes() for name in FILES})
    assert is_released(TINY_MUSIC)
    by_name, by_folder = solfa.load_model(TINY_MUSIC, device="cpu"), solfa.load_model(exported, device="cpu")
    assert by_name.info.conditions == {"description": "learnt_words"}
    told, other = "slow piano in A minor, 80 bpm", "fast drums, 120 bpm"
    clips = [model.generate(text, seconds=0.2)[0] for model, text in ((by_name, told), (by_folder, told))]
    assert torch.equal(torch.as_tensor(clips[0].audio), torch.as_tensor(clips[1].audio))
    assert by_name.log_prob(clips[0], told) != by_name.log_prob(clips[0], other)


def test_a_model_that_is_not_there_or_not_what_was_released_is_refused(package: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"solfa_tiny_music: it is not in this installation.*recipes/tiny_music"):
        solfa.load_model(TINY_MUSIC)
    exported = export_tiny_music(tmp_path / "exported")
    about = Release(name=TINY_MUSIC, version=1, fingerprint=files_fingerprint(exported))
    write_release(package / TINY_MUSIC, about, {name: (exported / name).read_bytes() for name in FILES})
    weights = package / TINY_MUSIC / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(ConfigError, match=r"damaged or were replaced: reinstall"):
        solfa.load_model(TINY_MUSIC)


def test_a_run_can_continue_from_a_model_by_its_name(package: Path, tmp_path: Path) -> None:
    exported = export_tiny_music(tmp_path / "exported")
    about = Release(name=TINY_MUSIC, version=1, fingerprint=files_fingerprint(exported))
    write_release(package / TINY_MUSIC, about, {name: (exported / name).read_bytes() for name in FILES})
    expected = read_base(str(exported))
    assert expected is not None
    for location in (TINY_MUSIC, f"//pretrained/{TINY_MUSIC}"):
        found = read_base(location)
        assert found is not None and found.networks.keys() == expected.networks.keys()
        for name, tensor in expected.networks["model"].items():
            if isinstance(tensor, torch.Tensor):
                assert torch.equal(found.networks["model"][name], tensor)


@pytest.mark.skipif(not is_released(TINY_MUSIC), reason="the model is not in this tree")
def test_the_released_model_was_trained_on_codes_of_the_released_codec() -> None:
    about = json.loads((release.ROOT / TINY_MUSIC / "config.json").read_text(encoding="utf-8"))["data"]
    assert about["codec_fingerprint"] == load_codec(about["codec"]).fingerprint
    assert sum(path.stat().st_size for path in (release.ROOT / TINY_MUSIC).iterdir()) < 12_500_000
