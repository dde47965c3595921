"""What the first page of the documentation promises: one command that trains, evaluates, generates and decodes."""

import json
from pathlib import Path

import pytest
import soundfile

from tests.integration.commands import solfa_here
from tests.integration.conftest import Solfa

KNOWING_NOTHING = 6.931
"""ln 1024: the loss of a guess among all entries of a codebook."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dora_dir(place_of_experiments: Path) -> Path:
    solfa_here(place_of_experiments, "train", "solver=lm/debug")
    return place_of_experiments


@pytest.fixture(scope="module")
def experiment(dora_dir: Path) -> Path:
    (folder,) = (dora_dir / "xps").iterdir()
    return folder


def test_all_stages_ran_and_the_loss_fell(experiment: Path) -> None:
    history = json.loads((experiment / "history.json").read_text())
    assert [set(epoch) for epoch in history] == [{"train", "valid", "evaluate", "generate"}] * 2
    assert history[1]["train"]["loss"] < history[0]["train"]["loss"] < KNOWING_NOTHING
    assert history[1]["evaluate"]["loss"] < KNOWING_NOTHING  # with the best weights, of other instruments


def test_generated_clips_can_be_heard_and_seen(experiment: Path) -> None:
    clips = sorted(path.relative_to(experiment / "samples") for path in (experiment / "samples").rglob("*.wav"))
    assert [str(path) for path in clips] == ["1/000.wav", "1/001.wav", "2/000.wav", "2/001.wav"]
    audio, sample_rate = soundfile.read(experiment / "samples" / clips[0])
    assert (audio.shape, sample_rate) == ((9600,), 24000)
    assert audio.std() > 0
    assert (experiment / "samples" / clips[0]).with_suffix(".png").stat().st_size > 100
    assert "000" in (experiment / "samples" / "index.html").read_text()


def test_an_experiment_is_evaluated_by_its_signature(solfa: Solfa, dora_dir: Path, experiment: Path) -> None:
    before = (experiment / "checkpoint.pt").read_bytes()
    solfa("train", "-f", experiment.name, "execute_only=evaluate")
    evaluated = json.loads((experiment / "evaluate.json").read_text())
    history = json.loads((experiment / "history.json").read_text())
    assert evaluated["metrics"] == history[-1]["evaluate"]
    assert (experiment / "checkpoint.pt").read_bytes() == before
    assert [path.name for path in (dora_dir / "xps").iterdir()] == [experiment.name]


def test_a_clip_is_generated_from_the_experiment(solfa: Solfa, experiment: Path, tmp_path: Path) -> None:
    solfa("generate", experiment.name[:4], "--seconds", 0.2, "--out", tmp_path, "--format", "flac")
    audio, sample_rate = soundfile.read(tmp_path / "clip-000.flac")
    assert (audio.shape, sample_rate) == ((4800,), 24000)


def test_info_shows_it(solfa: Solfa, experiment: Path) -> None:
    told = solfa("info", experiment.name)
    assert "2 of 2" in told
    assert "ce_q1" in told
