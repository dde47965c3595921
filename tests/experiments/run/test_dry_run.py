"""A dry run tells what a run would take, and leaves nothing."""

from pathlib import Path
from typing import Any

import pytest

from solfa.errors import ConfigError
from solfa.experiments.run.dry_run import dry_run
from solfa.solvers.watchers.protocol import Watcher
from tests.experiments.own_folder import make_main
from tests.solvers.tasks.test_lm import store_songs


class Told(Watcher):
    """Remembers the plan."""

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}

    def planned(self, facts: Any) -> None:
        self.facts = dict(facts)


def told(main: Any, *argv: str) -> dict[str, str]:
    xp, watcher = main.compose(argv), Told()
    dry_run(xp, main.settings(xp), main.environment, watcher)
    assert xp.sig in watcher.facts["solver"]
    return watcher.facts


def test_a_solver_of_ones_own_is_built_but_not_run(main: Any, tmp_path: Path) -> None:
    assert "parameters" in told(main, "solver=own")
    assert not (tmp_path / "dora").exists()


def test_audio_that_has_yet_to_be_encoded_is_named(main: Any, tmp_path: Path) -> None:
    facts = told(main, "solver=lm/debug")
    assert "encoded first" in facts["data"] and "solfa_24khz" in facts["data"]
    assert not (tmp_path / "dora").exists()


def test_a_model_is_counted_and_refused_before_it_is_built(main: Any, tmp_path: Path) -> None:
    music = store_songs(tmp_path / "music.solfa")
    data = (f"dset.train={music}", "dset.hold_out={clips: 1,fraction: null}", "device=cpu")
    facts = told(main, "solver=lm/tiny", *data)
    assert "all trained" in facts["parameters"] and "clip" in facts["valid"]
    with pytest.raises(ConfigError, match=r"model: .*solver=lm/laptop"):
        told(make_main(), "solver=lm/base", "model.dim=65536", *data)  # 1.2 trillion parameters
    assert not (tmp_path / "dora").exists()


def test_a_path_where_nothing_is_is_answered_with_the_key_to_set(main: Any) -> None:
    with pytest.raises(ConfigError, match=r"^dset\.train\.path: .*nowhere.*dset\.train\.path=FOLDER"):
        told(main, "solver=lm/debug", "dset.train.path=nowhere")
