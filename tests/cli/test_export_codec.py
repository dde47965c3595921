"""`solfa export-codec` as a user types it: a folder that loads as the codec it was, or one sentence."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from solfa.codecs import export_codec
from solfa.codecs.catalogue import load_codec
from solfa.models.codec.bottlenecks import Gaussian
from solfa.xp.state_file import write_state
from tests.cli.conftest import SolfaMain
from tests.models.codec.tiny_codec import RVQ, tiny_model
from tests.trees import tree_digest

SIG = "c0dec000"


def write_experiment(folder: Path, solver: str = "compression", bottleneck: Any = RVQ) -> Path:
    """Write what a trained experiment leaves of its model."""
    model = tiny_model(bottleneck, lstm_layers=0)
    write_state(folder / "best.pt", {"states": {"model": model.state_dict()}})
    settings = {"solver": solver, "model": model.config.model_dump(mode="json")}
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    return write_experiment(tmp_path / "dora/xps" / SIG)


@pytest.fixture
def export(experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, solfa_main: SolfaMain) -> SolfaMain:
    monkeypatch.setenv("SOLFA_DORA_DIR", str(tmp_path / "dora"))
    return partial(solfa_main, "export-codec")


def printed_fingerprint(output: str) -> str:
    (found,) = re.findall(r"fingerprint\s+([0-9a-f]{64})", output)
    return str(found)


def codes(spec: Path | str) -> torch.Tensor:
    return load_codec(spec).encode(torch.sin(torch.arange(4000) / 7)[None, None]).array


@pytest.mark.parametrize("named", [SIG, SIG[:3], f"//sig/{SIG}", "FOLDER"])
def test_the_folder_is_the_codec_of_the_experiment(
    export: SolfaMain, experiment: Path, tmp_path: Path, named: str
) -> None:
    code, output = export(str(experiment) if named == "FOLDER" else named, tmp_path / "deep/codec")
    assert code == 0, output
    names = ["codec/README.md", "codec/config.json", "codec/model.safetensors"]
    assert sorted(tree_digest(tmp_path / "deep")) == names
    card = (tmp_path / "deep/codec/README.md").read_text()
    assert printed_fingerprint(output) in card and "4 codebooks of 16 entries" in card
    for said in ("8,000 Hz", "1 channel", "200 per second", "4 codebooks", "16 entries", "3.2 kbit/s", "float32"):
        assert said in output
    exported = load_codec(tmp_path / "deep/codec")
    assert exported.fingerprint == printed_fingerprint(output) == load_codec(f"//sig/{SIG}").fingerprint
    assert torch.equal(codes(tmp_path / "deep/codec"), codes(f"//sig/{SIG}"))


@pytest.mark.parametrize("named", [SIG, SIG[:3], f"//sig/{SIG}"])
def test_from_python_an_experiment_is_named_as_on_the_command_line(
    experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("SOLFA_DORA_DIR", str(tmp_path / "dora"))
    exported = export_codec(named, str(tmp_path / "codec"), name="me/codec")
    assert exported.fingerprint == load_codec(experiment).fingerprint
    card = (tmp_path / "codec/README.md").read_text()
    assert 'load_codec("me/codec")' in card and "1 channel " in card


def test_half_precision_is_stored_and_said(export: SolfaMain, experiment: Path, tmp_path: Path) -> None:
    code, output = export(SIG, tmp_path / "codec", "--half")
    assert code == 0 and "float16" in output
    stored = load_file(tmp_path / "codec/model.safetensors")
    assert stored["encoder.layers.0.conv.bias"].dtype == torch.float16
    loaded = load_codec(tmp_path / "codec")
    assert loaded.fingerprint == printed_fingerprint(output) != load_codec(experiment).fingerprint
    assert (codes(tmp_path / "codec") == codes(experiment)).float().mean() > 0.9


def test_continuous_latents_are_described_by_their_width(export: SolfaMain, tmp_path: Path) -> None:
    write_experiment(tmp_path / "dora/xps/1a7e0000", bottleneck=Gaussian(latent_channels=5))
    code, output = export("1a7e", tmp_path / "codec")
    assert code == 0 and "5 numbers" in output and "bit/s" not in output


def test_an_existing_folder_is_left_as_it_is(export: SolfaMain, tmp_path: Path) -> None:
    assert export(SIG, tmp_path / "codec")[0] == 0
    before = tree_digest(tmp_path / "codec")
    code, output = export(SIG, tmp_path / "codec", "--half")
    assert code == 2 and f"{tmp_path}/codec: already exists" in output
    assert tree_digest(tmp_path / "codec") == before


def no_weights(folder: Path) -> None:
    (folder / "best.pt").unlink()


def other_solver(folder: Path) -> None:
    write_experiment(folder, solver="lm")


def no_json(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def no_model(folder: Path) -> None:
    (folder / "config.json").write_text('{"solver": "compression"}')


def no_checkpoint(folder: Path) -> None:
    (folder / "best.pt").write_bytes(b"not weights")


def other_weights(folder: Path) -> None:
    weights = tiny_model(num_filters=6, lstm_layers=0).state_dict()
    write_state(folder / "best.pt", {"states": {"model": weights}})


def too_large(folder: Path) -> None:
    weights = tiny_model(lstm_layers=0).state_dict()
    weights["encoder.layers.0.conv.bias"][0] = 1e6
    write_state(folder / "best.pt", {"states": {"model": weights}})


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (no_weights, r"best\.pt.*train it"),
        (other_solver, r"\blm\b.*solfa export-model"),
        (no_json, r"config\.json: expected .*settings"),
        (no_model, r"config\.json: model: sample_rate: "),
        (no_checkpoint, r"best\.pt: expected a .*checkpoint.*damaged"),
        (other_weights, r"best\.pt: expected the weights .*config\.json"),
        (too_large, r"encoder\.layers\.0\.conv\.bias: expected .*65,504"),
    ],
)
def test_what_cannot_be_exported_is_said_in_one_sentence(
    damage: Callable[[Path], None], words: str, export: SolfaMain, experiment: Path, tmp_path: Path
) -> None:
    damage(experiment)
    code, output = export(SIG, tmp_path / "codec", "--half")
    assert code == 2
    assert output.startswith("solfa: ") and re.search(words, output) and "Traceback" not in output
    assert [path.name for path in tmp_path.iterdir()] == ["dora"]


def test_an_unknown_signature_is_one_sentence(export: SolfaMain, tmp_path: Path) -> None:
    code, output = export("c0dec001", tmp_path / "codec")
    assert code == 2 and re.search(f"c0dec001: .*{tmp_path}/dora/xps.*{SIG}", output)


def test_help_has_an_example(export: SolfaMain) -> None:
    assert "solfa export-codec 899630c8 my_codec/" in export("--help")[1]
