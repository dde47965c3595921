"""A run in Weights & Biases: the same curves, clips and config as in TensorBoard, on the same axis of updates.

A resumed run continues under its first id, which is the name of the experiment's folder. W&B cannot take values back,
so after a kill, the few steps since the last checkpoint are ignored when they are logged again.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import wandb

from solfa.generate.clip import GeneratedClip
from solfa.solvers.watchers.protocol import WandbConfig, Watcher


class WandbWatcher(Watcher):
    """Logs to a project; wandb's own settings decide whether online or offline."""

    def __init__(self, folder: Path, config: WandbConfig, updates_per_epoch: int) -> None:
        self._folder, self._config, self._updates_per_epoch = folder, config, updates_per_epoch
        self._run: Any = None
        self._stage, self._epoch = "", 0

    def started(self, folder: Path, hyper_parameters: Mapping[str, Any]) -> None:
        self._run = wandb.init(
            project=self._config.project,
            entity=self._config.entity,
            group=self._config.group,
            name=self._config.name or self._folder.name,
            tags=list(self._config.tags),
            id=self._folder.name,
            resume="allow",
            dir=str(self._folder),
            config=dict(hyper_parameters),
        )

    def stage_started(self, stage: str, epoch: int, total: int | None) -> None:
        self._stage, self._epoch = stage, epoch

    def step(self, done: int, metrics: Mapping[str, float]) -> None:
        if self._stage == "train":
            self._log("train", metrics, (self._epoch - 1) * self._updates_per_epoch + done)

    def stage_finished(self, stage: str, epoch: int, metrics: Mapping[str, float], seconds: float) -> None:
        self._log("train_epoch" if stage == "train" else stage, metrics, epoch * self._updates_per_epoch)

    def clips(self, stage: str, epoch: int, clips: Sequence[GeneratedClip]) -> None:
        sounds = {
            clip.name: wandb.Audio(clip.samples().T, sample_rate=clip.sample_rate, caption=_caption(clip))
            for clip in clips
        }
        self._log(stage, sounds, epoch * self._updates_per_epoch)

    def closed(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None

    def _log(self, part: str, values: Mapping[str, Any], update: int) -> None:
        assert self._run is not None, "call started() first"
        self._run.log({f"{part}/{name}": value for name, value in values.items()}, step=update)


def _caption(clip: GeneratedClip) -> str:
    return ", ".join(f"{name}: {value}" for name, value in clip.metadata.items()) or clip.name
