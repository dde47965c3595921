"""Training a codec as the documentation shows it: one command, then the experiment is used as any codec is."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from solfa.codecs.catalogue import load_codec
from solfa.models.codec.network import CodecModel
from solfa.ops.audio_metrics import si_sdr
from solfa.store.dataset import open_dataset
from tests.integration.commands import run, solfa_here
from tests.integration.conftest import Solfa

pytestmark = [pytest.mark.slow, pytest.mark.learning]
BOUND_DB = 3.0
"""Reached after ten seconds of training (about 9 dB), and far above what a codec gives that has learned nothing."""


@pytest.fixture(scope="module")
def experiment(place_of_experiments: Path) -> Path:
    """The one that is there before any test; some of them add others."""
    solfa_here(place_of_experiments, "train", "solver=compression/debug")
    (history,) = (place_of_experiments / "xps").glob("*/history.json")
    return history.parent


@pytest.fixture(scope="module")
def dora_dir(experiment: Path) -> Path:
    return experiment.parents[1]


def heard(experiment: Path, name: str) -> torch.Tensor:
    audio, sample_rate = soundfile.read(experiment / "samples/2" / f"{name}.wav", dtype="float32")
    assert sample_rate == 4000
    return torch.from_numpy(audio)[None, None]


def test_all_stages_ran_and_report_how_well_it_reconstructs(experiment: Path) -> None:
    history = json.loads((experiment / "history.json").read_text())
    assert [set(epoch) for epoch in history] == [{"train", "valid", "evaluate", "generate"}] * 2
    assert ["discriminator" in epoch["train"] for epoch in history] == [False, True]
    for stage in ("valid", "evaluate"):
        found = history[-1][stage]
        assert found["si_sdr"] > BOUND_DB
        assert found["mel_distance"] < 14
        assert 0.5 < found["usage"] <= 1
        assert 10 < found["perplexity"] <= 64


def test_originals_and_what_became_of_them_can_be_heard_and_seen(experiment: Path) -> None:
    written = {str(path.relative_to(experiment / "samples")) for path in (experiment / "samples").rglob("*.*")}
    names = [
        f"{epoch}/{clip}-{kind}" for epoch in (1, 2) for clip in ("000", "001") for kind in ("original", "decoded")
    ]
    assert written == {"index.html"} | {f"{name}.{end}" for name in names for end in ("wav", "png", "json")}
    assert (experiment / "samples/2/000-decoded.png").read_bytes().startswith(b"\x89PNG")
    page = (experiment / "samples/index.html").read_text()
    assert "000-original" in page and "000-decoded" in page


def test_what_is_heard_is_what_only_a_trained_codec_gives(experiment: Path) -> None:
    original, codec = heard(experiment, "000-original"), load_codec(experiment)
    assert si_sdr(heard(experiment, "000-decoded"), original).item() > BOUND_DB
    untrained = CodecModel(codec.model.config).eval()  # type: ignore[attr-defined]
    with torch.no_grad():
        assert si_sdr(untrained(original).audio, original).item() < -BOUND_DB


def test_the_experiment_encodes_audio_with_the_codebooks_that_are_wanted(
    solfa: Solfa, experiment: Path, dora_dir: Path, tmp_path: Path
) -> None:
    source, dataset, codec = dora_dir / "demo/recordings", tmp_path / "out.solfa", f"//sig/{experiment.name}"
    one_process = ["--num-encoders", 1, "--num-workers", 0]
    solfa("encode", source, dataset, "--codec", codec, "--num-codebooks", 2, "--segment-seconds", 10, *one_process)
    assert "intact" in solfa("verify", dataset)
    solfa("decode", dataset, tmp_path / "decoded", "--limit", 3)
    stored = open_dataset(dataset)
    assert stored[0].array.shape[1] == 2
    assert len({int(code) for clip in stored for code in np.unique(clip.array)}) > 30
    for path in (tmp_path / "decoded").rglob("*.wav"):
        audio, sample_rate = soundfile.read(path)
        assert sample_rate == 4000 and audio.std() > 0.01
    assert len(list((tmp_path / "decoded").rglob("*.wav"))) == 3


def test_the_exported_codec_is_that_of_the_experiment(solfa: Solfa, experiment: Path, tmp_path: Path) -> None:
    told = solfa("export-codec", experiment.name[:4], tmp_path / "codec")
    exported, trained = load_codec(tmp_path / "codec"), load_codec(experiment)
    assert exported.fingerprint == trained.fingerprint
    assert exported.fingerprint in told
    original = heard(experiment, "001-original")
    assert torch.equal(exported.encode(original).array, trained.encode(original).array)


def test_a_grid_of_codecs_is_shown_and_its_folders_are_made(dora_dir: Path, experiment: Path) -> None:
    before = {path.parent.name for path in (dora_dir / "xps").glob("*/.argv.json")}
    shown = run(dora_dir, "dora", "grid", "compression.debug", "--dry_run", "--init", "--no_monitoring")
    trained = json.loads((experiment / "history.json").read_text())[-1]["valid"]
    assert f"{trained['si_sdr']:.2f}" in shown and "adversarial=None" in shown
    made = {path.parent.name for path in (dora_dir / "xps").glob("*/.argv.json")} - before
    assert len(made) == 2, "the third is the one that was trained"


@pytest.mark.parametrize("change", ["adversarial=null", "model.bottleneck.num_codebooks=2"])
def test_the_other_codecs_of_the_grid_are_trained_through_all_stages(solfa: Solfa, dora_dir: Path, change: str) -> None:
    before = set((dora_dir / "xps").glob("*/history.json"))
    short = ["optim.epochs=1", "optim.updates_per_epoch=2", "optim.schedule.warmup_updates=1"]
    start = [] if "adversarial" in change else ["adversarial.start_update=1"]
    solfa("train", "solver=compression/debug", *short, *start, change)
    (written,) = set((dora_dir / "xps").glob("*/history.json")) - before
    last = json.loads(written.read_text())[-1]
    assert set(last) == {"train", "valid", "evaluate", "generate"}
    assert ("discriminator" in last["train"]) == ("adversarial" not in change)
    assert all(np.isfinite(value) for metrics in last.values() for value in metrics.values())
