"""Events reach every watcher in order, faults are not swallowed, and a stage is summed up in one line."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.solvers.watchers.protocol import LoggingConfig, Watcher, Watchers, summary_line
from solfa.solvers.watchers.tensorboard import TensorBoardWatcher


class Diary(Watcher):
    """Notes what it is told, and fails where asked to."""

    def __init__(self, name: str, notes: list, fails_at: str = "") -> None:
        self.name, self.notes, self.fails_at = name, notes, fails_at

    def _note(self, event: str, *details) -> None:
        self.notes.append((self.name, event, *details))
        if event == self.fails_at:
            raise OSError("disk full")

    def started(self, folder, hyper_parameters):
        self._note("started", folder, hyper_parameters)

    def stage_started(self, stage, epoch, total):
        self._note("stage_started", stage, epoch, total)

    def step(self, done, metrics):
        self._note("step", done, metrics)

    def stage_finished(self, stage, epoch, metrics, seconds):
        self._note("stage_finished", stage, epoch, metrics, seconds)

    def clips(self, stage, epoch, clips):
        self._note("clips", stage, epoch, clips)

    def closed(self):
        self._note("closed")


def tell_everything(watcher: Watcher) -> None:
    watcher.started(Path("xp"), {"seed": 1})
    watcher.stage_started("train", 1, 20)
    watcher.step(10, {"loss": 2.0})
    watcher.stage_finished("train", 1, {"loss": 1.5}, 3.0)
    watcher.clips("generate", 1, [])
    watcher.closed()


def test_every_watcher_is_told_everything_in_order():
    notes: list = []
    tell_everything(Watchers([Diary("a", notes), Diary("b", notes)]))
    alone: list = []
    tell_everything(Diary("a", alone))
    assert [note for note in notes if note[0] == "a"] == alone
    assert [note[1:] for note in notes if note[0] == "b"] == [note[1:] for note in alone]
    assert len(alone) == 6 and [note[0] for note in notes] == ["a", "b"] * 6


def test_a_watcher_that_overrides_nothing_may_be_told_everything():
    class Deaf(Watcher):
        pass

    tell_everything(Deaf())
    assert isinstance(Watchers(()), Watcher)


@pytest.mark.parametrize("event", ["started", "stage_started", "step", "stage_finished", "clips", "closed"])
def test_a_failing_watcher_is_not_swallowed(event):
    with pytest.raises(OSError, match="disk full"):
        tell_everything(Watchers([Diary("a", []), Diary("b", [], event)]))


def test_all_watchers_are_closed_even_if_one_fails_to():
    notes: list = []
    with pytest.raises(OSError, match="disk full"):
        Watchers([Diary("a", notes, "closed"), Diary("b", notes)]).closed()
    assert notes == [("a", "closed"), ("b", "closed")]


def test_a_stage_is_summed_up_in_one_line():
    metrics = {"ce_0": 0.0004, "loss": 2.3141, "lr": 3e-4, "ppl": 10.12, "grad_norm": 12345.6}
    line = summary_line("train", 3, 10, metrics, 41.2, 12.34)
    assert line == (
        "train     epoch 3/10  loss 2.314  ppl 10.1  lr 3.0e-04  ce_0 0.0004  grad_norm 1.23e+04  "
        "12.3 updates/s  41.2 s"
    )
    assert summary_line("valid", 3, None, {"loss": float("nan")}, 3725) == "valid     epoch 3  loss nan  1 h 02 min"
    many = {f"metric_{index}": 1.0 for index in range(20)}
    assert "metric_7 " in (line := summary_line("valid", 1, 2, many, 1)) and "metric_8 " not in line


def test_a_clip_gives_numpy_whatever_it_holds():
    audio = torch.rand(2, 5, dtype=torch.float64, requires_grad=True)
    clip = GeneratedClip("a", audio, 8000)
    assert clip.samples().dtype == np.float32 and np.allclose(clip.samples(), audio.detach().numpy())
    array = np.zeros((1, 4), np.float32)
    assert np.shares_memory(GeneratedClip("b", array, 8000).samples(), array)


def test_tensorboard_is_the_default_and_can_be_left_out(tmp_path):
    (watcher,) = LoggingConfig().build(tmp_path, updates_per_epoch=10)
    assert isinstance(watcher, TensorBoardWatcher) and watcher.folder == tmp_path / "tensorboard"
    assert not list(tmp_path.iterdir())
    assert LoggingConfig(tensorboard=False).build(tmp_path, updates_per_epoch=10) == []


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed")
def test_wandb_that_is_not_installed_is_answered_with_what_to_do(tmp_path):
    config = parse_config(LoggingConfig, {"wandb": {"project": "music"}}, "logging")
    with pytest.raises(ConfigError, match=r"logging\.wandb: .*`pip install wandb`"):
        config.build(tmp_path, updates_per_epoch=10)
