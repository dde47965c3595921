"""A model whose codec moved on around the same codebooks: it is told, and a codec of other codes is refused."""

import importlib.util
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import solfa
from solfa.codecs.built_in.release import ROOT as CODECS
from solfa.errors import ConfigError
from solfa.generate.built_in.model_release import ROOT as MODELS
from solfa.generate.built_in.model_release import TINY_MUSIC, files_fingerprint

SPEC = importlib.util.spec_from_file_location(
    "follow_codec", Path(__file__).parents[2] / "recipes/tiny_music/follow_codec.py"
)
assert SPEC is not None and SPEC.loader is not None
recipe = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(recipe)


def earlier_codec(folder: Path, tensor: str) -> str:
    """Copy the codec in the package, with one of its tensors changed a little."""
    shutil.copytree(CODECS / "solfa_24khz", folder)
    state = load_file(folder / "model.safetensors")
    (name,) = [name for name in state if name.endswith(tensor)]
    state[name] = state[name] * 1.001 + torch.finfo(state[name].dtype).eps
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


def model_of(before: str, folder: Path) -> Path:
    """Copy the model in the package, as if it knew another codec."""
    shutil.copytree(MODELS / TINY_MUSIC, folder)
    options = "beam=1,num_codebooks=4"
    now, then = (solfa.load_codec(f"{name}:{options}").fingerprint for name in ("solfa_24khz", before))
    for told in recipe.TOLD:
        text = (folder / told).read_text()
        assert now in text
        (folder / told).write_text(text.replace(now, then))
    return folder


def test_a_model_follows_an_encoder_that_moved_on(tmp_path: Path) -> None:
    before = earlier_codec(tmp_path / "before", "encoder.last.weight")
    model = model_of(before, tmp_path / "model")
    release = recipe.follow_codec(before, model)
    assert release.fingerprint == files_fingerprint(model) == files_fingerprint(MODELS / TINY_MUSIC)
    for told in recipe.TOLD:
        assert (model / told).read_bytes() == (MODELS / TINY_MUSIC / told).read_bytes()


@pytest.mark.parametrize(
    ("tensor", "known", "words"),
    [("codebooks", True, "codebooks .*train the model again"), ("encoder.last.weight", False, "that the model knows")],
)
def test_other_codebooks_and_codecs_that_the_model_never_knew_are_refused(
    tmp_path: Path, tensor: str, known: bool, words: str
) -> None:
    before = earlier_codec(tmp_path / "before", tensor)
    model = model_of(before if known else "solfa_24khz", tmp_path / "model")
    files = {told: (model / told).read_bytes() for told in recipe.TOLD}
    with pytest.raises(ConfigError, match=words):
        recipe.follow_codec(before, model)
    assert files == {told: (model / told).read_bytes() for told in recipe.TOLD}
