"""One command teaches a text model to write audio, another lets it play what it is told."""

import json
from pathlib import Path

import pytest
import soundfile

from tests.integration.commands import run, solfa_here

KNOWING_NOTHING = 6.931
"""ln 1024: the loss of a guess among all entries of a codebook."""

pytestmark = [pytest.mark.slow, pytest.mark.learning]


def test_a_text_model_learns_and_plays_what_a_text_says(place_of_experiments: Path, tmp_path: Path) -> None:
    solfa_here(place_of_experiments, "train", "solver=mot/debug")
    (experiment,) = (place_of_experiments / "xps").iterdir()
    history = json.loads((experiment / "history.json").read_text())
    assert [set(epoch) for epoch in history] == [{"train", "valid", "evaluate", "generate"}] * 2
    assert history[1]["train"]["loss"] < history[0]["train"]["loss"] < KNOWING_NOTHING
    assert history[1]["valid"]["loss"] < history[0]["valid"]["loss"] < KNOWING_NOTHING
    assert len(list((experiment / "samples").rglob("*.wav"))) == 4

    # A fresh process, which has the weights that were trained and makes the rest anew.
    out = ["--out", str(tmp_path / "out")]
    run(place_of_experiments, "solfa", "generate", experiment.name[:4], "--text", "a harp", "--seconds", "0.3", *out)
    audio, sample_rate = soundfile.read(tmp_path / "out/a-harp-000.wav")
    assert (audio.shape, sample_rate) == ((22 * 320,), 24000)  # 0.3 s are 22 frames of 75 a second
    assert audio.std() > 0
    made = json.loads((tmp_path / "out/a-harp-000.json").read_text())
    assert made["metadata"]["conditions"] == {"text": "a harp"}
