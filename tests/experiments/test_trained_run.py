"""An experiment that is run from Python gives its folder, its history and a model, and goes on when it is run again."""

import shutil
import sys
from pathlib import Path

import pytest

import solfa
from solfa.demo.demo_paths import demo_folder
from solfa.errors import ConfigError


@pytest.mark.slow
def test_a_run_from_python_has_a_folder_a_history_and_a_model(
    demo_recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(demo_recordings, demo_folder(tmp_path))
    monkeypatch.setenv("SOLFA_DORA_DIR", str(tmp_path))
    monkeypatch.delitem(sys.modules, "solfa.train", raising=False)
    monkeypatch.delattr(solfa, "train", raising=False)  # where experiments live is read when it is imported
    settings = ["solver=lm/debug", "optim.epochs=1", "optim.updates_per_epoch=6", "generate.every=null"]
    run = solfa.train(settings, device="cpu", num_threads=1)
    assert run.folder == tmp_path / "xps" / run.signature
    assert [sorted(epoch) for epoch in run.history] == [["evaluate", "train", "valid"]]
    (clip,) = run.model.generate(seconds=0.2)
    assert clip.sample_rate == 24000
    named = {"optim": {"epochs": 1, "updates_per_epoch": 6}, "generate": {"every": None}}
    again = solfa.train("solver=lm/debug", device="cpu", num_threads=1, **named)
    assert (again.signature, again.history) == (run.signature, run.history)
    with pytest.raises(ConfigError, match="epoch: unknown"):
        solfa.train(["solver=lm/debug", "optim.epoch=1"])
