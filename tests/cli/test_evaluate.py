"""`solfa evaluate` as a user types it, on models that were trained for it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import solfa
from solfa.evaluate.evaluation import JSON_NAME
from solfa.ui.html.evaluation_page import PAGE_NAME
from tests.cli.conftest import SolfaMain
from tests.evaluate.test_memorisation import write_takes


@pytest.mark.slow
@pytest.mark.learning
def test_a_model_that_has_overfitted_is_told_from_a_fresh_one(
    quiet_process: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, solfa_main: SolfaMain
) -> None:
    """Four clips learned by heart come back one by one; what a model says after two updates is like none of them."""
    monkeypatch.setenv("SOLFA_DORA_DIR", str(tmp_path / "dora"))
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path / "cache"))
    audio, data = write_takes(tmp_path / "audio", range(4), 2.5, 24_000), str(tmp_path / "takes.solfa")
    solfa.encode(audio, data, codec=solfa.load_codec("solfa_24khz:num_codebooks=1"))

    def judged(num_updates: int) -> tuple[str, Mapping[str, Any], str]:
        run = solfa.train(
            "solver=lm/debug",
            dset={"train": data, "valid": data, "hold_out": None, "on_leak": "ignore"},
            dataset={"segment_seconds": 2.5, "batch_size": 4},
            optim={
                "epochs": 1,
                "updates_per_epoch": num_updates,
                "optimizer": {"lr": 0.01},
                "schedule": {"warmup_updates": 1},
            },
            evaluate={"every": None},
            generate={"every": None},
            logging={"tensorboard": False},
        )
        out = tmp_path / str(num_updates)
        settings = ("--embedder", "mel", "--metrics", "kad", "--num", 4, "--seconds", 2.5, "--out", out)
        code, output = solfa_main("evaluate", run.folder, "--reference", audio, *settings)
        assert code == 0
        return output, json.loads((out / JSON_NAME).read_text()), (out / PAGE_NAME).read_text()

    output, found, page = judged(220)
    assert [clip["nearest"]["is_copy"] for clip in found["clips"]] == [True] * 4
    assert "memorised" in output and page.count("<td>a copy</td>") == 4
    output, found, page = judged(2)
    assert not any(clip["nearest"] and clip["nearest"]["is_copy"] for clip in found["clips"])
    assert "memorised" not in output and page.count("<td>no copy</td>") == 4
