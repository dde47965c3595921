"""The settings an experiment was begun with, and what happens when they are others now."""

import json
from pathlib import Path

import pytest

from solfa.errors import ConfigError, StoreError
from solfa.experiments.compose.settings import SettingChange, Settings, changed_keys, keep_stored, settle
from solfa.solvers.config import SolverConfig
from solfa.solvers.standard import StandardSolver
from solfa.xp.layout import CONFIG, LAST

EXCLUDE = ["device", "on_changed_default", "logging", "logging.*", "*num_workers"]


def settings(**values: object) -> Settings:
    cfg = SolverConfig.model_validate({"solver": "x", "optim": {"epochs": 3}, **values})
    return Settings(StandardSolver, cfg)


def stored(folder: Path) -> dict[str, object]:
    return json.loads((folder / CONFIG).read_text())


def test_changes_are_named_by_their_way_with_both_values():
    before = {"a": 1, "b": {"c": [1, 2], "d": {"e.f": 1}}, "device": "cpu", "old": 5}
    after = {"a": 1, "b": {"c": [1, 3], "d": {"e.f": 2}}, "device": "cuda", "new": {"x": 1}, "off": None}
    assert changed_keys(before, after, EXCLUDE) == [
        SettingChange("b.c", [1, 2], [1, 3]),
        SettingChange("b.d.e.f", 1, 2),
        SettingChange("new.x", None, 1),
        SettingChange("old", 5, None),
    ]
    assert changed_keys(before, before, EXCLUDE) == []


def test_a_kept_experiment_takes_everything_but_the_excluded_from_before():
    before = {"a": 1, "b": {"e.f": 1, "num_workers": 2}, "logging": {"wandb": None}}
    after = {"a": 2, "b": {"e.f": 1, "num_workers": 4}, "logging": {"wandb": {"project": "p"}}, "new": 1}
    kept = keep_stored(before, after, EXCLUDE)
    assert kept == {"a": 1, "b": {"e.f": 1, "num_workers": 4}, "logging": {"wandb": {"project": "p"}}}


def test_without_a_checkpoint_the_stored_settings_are_simply_replaced(tmp_path):
    settle(tmp_path, settings(seed=1), EXCLUDE, write=True)
    settle(tmp_path, settings(seed=2), EXCLUDE, write=True)
    assert stored(tmp_path)["seed"] == 2


def test_only_the_first_process_writes(tmp_path):
    settle(tmp_path, settings(), EXCLUDE, write=False)
    assert list(tmp_path.iterdir()) == []


def test_what_changed_under_a_checkpoint_is_refused_by_name(tmp_path):
    settle(tmp_path, settings(seed=1), EXCLUDE, write=True)
    (tmp_path / LAST).touch()
    with pytest.raises(ConfigError, match=r"optim\.epochs .*3.*4.*seed .*1.*2.*on_changed_default=keep"):
        settle(tmp_path, settings(seed=2, optim={"epochs": 4}), EXCLUDE, write=True)
    assert stored(tmp_path)["seed"] == 1


def test_what_is_excluded_may_change_and_is_stored(tmp_path):
    settle(tmp_path, settings(device="cpu"), EXCLUDE, write=True)
    (tmp_path / LAST).touch()
    settled = settle(tmp_path, settings(device="auto"), EXCLUDE, write=True)
    assert (settled.cfg.device, stored(tmp_path)["device"]) == ("auto", "auto")


@pytest.mark.parametrize(("choice", "seed"), [("keep", 1), ("adopt", 2)])
def test_a_run_goes_on_with_the_old_or_the_new_settings(tmp_path, choice, seed):
    settle(tmp_path, settings(seed=1), EXCLUDE, write=True)
    (tmp_path / LAST).touch()
    settled = settle(tmp_path, settings(seed=2, device="cpu", on_changed_default=choice), EXCLUDE, write=True)
    assert (settled.cfg.seed, settled.cfg.device, stored(tmp_path)["seed"]) == (seed, "cpu", seed)
    # From now on that is what it is: the same settings go on without a word.
    settle(tmp_path, settings(seed=seed), EXCLUDE, write=True)


def test_stored_settings_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / LAST).touch()
    (tmp_path / CONFIG).write_text("{")
    with pytest.raises(StoreError, match=r"config\.json: .*JSON"):
        settle(tmp_path, settings(), EXCLUDE, write=True)
