"""Runs that started from weights end with evidence: the same whatever interrupted them, and right."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from solfa.solvers.evidence.comparison import Evidence
from solfa.solvers.watchers.protocol import Watcher, Watchers
from solfa.store.array_dataset import append_arrays
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import DatasetInfo
from solfa.store.shard_writer import Outcome
from solfa.ui.evidence_files import EvidenceWriter
from solfa.xp.state_file import read_state
from tests.solvers.conftest import Crash, Toy
from tests.solvers.tasks import test_lm


class Told(Watcher):
    """Keeps the evidence."""

    def __init__(self) -> None:
        self.evidence: list[Evidence] = []

    def changed(self, evidence: Evidence) -> None:
        self.evidence.append(evidence)


@pytest.fixture(scope="module")
def songs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return test_lm.store_songs(tmp_path_factory.mktemp("data") / "songs.solfa")


@pytest.fixture(scope="module")
def base(songs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    test_lm.solver_of(folder, values_of(songs, optim__updates_per_epoch=30)).run()
    assert not (folder / "evidence.json").exists(), "it started from nothing"
    return folder


def values_of(songs: Path, **changes: Any) -> dict[str, Any]:
    changes = {"optim__epochs": 1, "optim__updates_per_epoch": 3, "generate__seconds": 0.2, **changes}
    return test_lm.lm_values(songs, conditioner=test_lm.LABELS, **changes)


def tune(folder: Path, songs: Path, base: Path, watcher: Watcher | None = None, **changes: Any) -> dict[str, Any]:
    test_lm.solver_of(folder, values_of(songs, continue_from=str(base), **changes), watcher).run()
    found: dict[str, Any] = json.loads((folder / "evidence.json").read_text())
    return found


@pytest.mark.parametrize("adapter", [None, {"rank": 4}], ids=["whole", "adapter"])
def test_a_run_that_changes_the_weights_shows_where_and_what_for(
    songs: Path, base: Path, tmp_path: Path, adapter: dict[str, Any] | None
) -> None:
    told = Told()
    watchers = Watchers([told, EvidenceWriter(tmp_path)])
    changes: dict[str, Any] = {"optim__updates_per_epoch": 30, "adapter": adapter, "generate__every": 1}
    found = tune(tmp_path, songs, base, watchers, **changes)
    (evidence,) = told.evidence
    assert json.loads(json.dumps(evidence.values())) == found
    assert found["outcome"] == "it changed"
    assert found["train"]["difference"]["high"] < 0
    assert found["held_out"]["num_recordings"] == 3
    assert found["train"]["num_recordings"] == 9
    layers = {layer["layer"]: layer["change"] for layer in found["layers"]}
    assert all(change > 0 for change in layers.values())
    assert any(name.endswith("transformer.layers.0") for name in layers)
    assert not (tmp_path / "start.pt").exists()
    # The losses are those that the weights have on either side.
    best = read_state(base / "best.pt")["value"]
    assert found["held_out"]["before"]["value"] == pytest.approx(best, rel=1e-5)
    assert found["held_out"]["after"]["value"] == pytest.approx(read_state(tmp_path / "best.pt")["value"], rel=1e-5)
    # The clips were drawn from the same seeds.
    assert [pair.before.metadata["seed"] for pair in evidence.clips] == [
        pair.after.metadata["seed"] for pair in evidence.clips
    ]
    assert len(evidence.clips) == 3
    page = (tmp_path / "evidence.html").read_text()
    assert page.count("<audio") == 6 and "it changed" in page and "<script" not in page


@pytest.mark.slow
def test_a_run_that_learns_noise_by_heart_says_so(tmp_path: Path) -> None:
    noise = store_noise(tmp_path / "noise.solfa")
    size = {"dim": 32, "num_layers": 1, "num_heads": 2, "ffn_dim": 64}
    plain: dict[str, Any] = {"model": size, "conditioner": {}, "optim__ema": None}
    test_lm.solver_of(tmp_path / "base", test_lm.lm_values(noise, optim__epochs=1, **plain)).run()
    changes: dict[str, Any] = {
        "optim__epochs": 1,
        "optim__updates_per_epoch": 60,
        "optim__optimizer__lr": 0.02,
        **plain,
    }
    values = test_lm.lm_values(noise, continue_from=str(tmp_path / "base"), **changes)
    test_lm.solver_of(tmp_path / "xp", values).run()
    found = json.loads((tmp_path / "xp" / "evidence.json").read_text())
    assert found["outcome"] == "it memorised", found["sentence"]


def store_noise(root: Path) -> Path:
    """Store codes that say nothing about each other: whoever predicts some of them better has seen them."""
    rng, outcomes = np.random.default_rng(0), []
    for index in range(12):
        planned = PlannedClip(*[f"{index}.wav"] * 3)
        outcomes.append(Outcome(planned, rng.integers(0, 16, (20, 2)), num_samples=20))
    info = DatasetInfo.of(test_lm.CODEC, test_lm.ARRAY, {"codec": test_lm.CODEC})
    append_arrays(root, info, outcomes, {}, clips_per_shard=5)
    return root


def test_a_run_that_learns_nothing_says_so(songs: Path, base: Path, tmp_path: Path) -> None:
    told = Told()
    rate = {"kind": "sgd", "lr": 1e-12, "momentum": 0.0}
    changes: dict[str, Any] = {"optim__optimizer": rate, "optim__ema": None, "generate__every": 1}
    found = tune(tmp_path, songs, base, told, **changes)
    assert found["outcome"] == "it did not change anything"
    pairs = told.evidence[0].clips
    assert all(torch.equal(torch.as_tensor(pair.before.audio), torch.as_tensor(pair.after.audio)) for pair in pairs)


@pytest.mark.slow
def test_an_interrupted_run_gives_the_same_evidence_and_gives_it_once(songs: Path, base: Path, tmp_path: Path) -> None:
    whole = tune(tmp_path / "whole", songs, base)
    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path / "broken", songs, base, Crash(4))
    assert (tmp_path / "broken" / "start.pt").exists()
    assert tune(tmp_path / "broken", songs, base) == whole
    told = Told()
    assert tune(tmp_path / "broken", songs, base, told) == whole
    assert not told.evidence


def test_a_solver_with_loaders_of_its_own_is_judged_by_their_batches(toy: Toy, tmp_path: Path) -> None:
    toy(tmp_path / "base", optim__epochs=1).run()
    told = Told()
    toy(tmp_path / "next", told, continue_from=str(tmp_path / "base"), optim__epochs=1).run()
    (evidence,) = told.evidence
    assert evidence.train is None
    assert evidence.held_out is not None and evidence.held_out.num_recordings > 1
    assert [layer.layer for layer in evidence.layers] == ["0", "3"]


def test_without_the_weights_it_started_from_a_run_ends_all_the_same(songs: Path, base: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path, songs, base, Crash(4))
    (tmp_path / "start.pt").unlink()
    with pytest.raises(FileNotFoundError):
        tune(tmp_path, songs, base)  # which looks for evidence
    assert (tmp_path / "history.json").exists()
