"""A preflight shows what a run would see and take, on a page, and leaves no experiment."""

from pathlib import Path
from typing import Any

import pytest

from solfa.experiments.run.preflight import preflight
from solfa.solvers.watchers.protocol import Watchers
from tests.solvers.tasks.test_lm import store_songs


@pytest.mark.slow
def test_a_page_is_written_and_no_experiment_is_left(main: Any, tmp_path: Path) -> None:
    music, page = store_songs(tmp_path / "music.solfa"), tmp_path / "page.html"
    data = (f"dset.train={music}", "dset.hold_out={clips: 1,fraction: null}", "dataset.segment_seconds=0.1")
    size = ("model=lm/debug", "device=cpu", "dataset.batch_size=4", "dataset.num_workers=0")
    optim = ("optim.epochs=2", "optim.updates_per_epoch=4000", "optim.schedule.warmup_updates=1000")
    xp = main.compose(["solver=lm/tiny", *data, *size, *optim, "optim.optimizer.lr=3e-3"])
    found = preflight(xp, main.settings(xp), main.environment, Watchers(), 20, page)
    # At the full rate: warming up for a thousand updates, it would hardly have moved.
    assert found.verdict.startswith("it learns") and found.num_updates == 8000
    text = page.read_text()
    assert text.count("<audio") == 4 and "<script" not in text
    for told in ("log 16", "before any training", found.rows[0].id, "Codebook usage", "8,000 updates", "parameters"):
        assert told in text
    assert not (tmp_path / "dora" / "xps").exists()
