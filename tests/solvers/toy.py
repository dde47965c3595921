"""A task small enough to train a hundred times in a test: predict the mean of a noisy clip, with dropout on the way."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from solfa.data.batching.collation import Batch
from solfa.data.batching.loader import make_loader
from solfa.data.batching.modes import Crop
from solfa.data.sources.clip_source import MemoryClip, MemoryClips
from solfa.generate.clip import GeneratedClip
from solfa.solvers.config import SolverConfig
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.optim.optimizer import build_optimizer
from solfa.solvers.standard import StandardSolver


class ToyConfig(SolverConfig):
    hidden: int = 8
    batch_size: int = 4
    num_clips: int = 22
    num_workers: int = 0
    broken_clip: str | None = None
    step_seconds: float = 0.0


def noisy_clips(count: int, broken: str | None = None) -> MemoryClips:
    clips = []
    for index in range(count):
        rng = np.random.default_rng(index)
        array = (index / count + rng.normal(size=(12, 3))).astype(np.float32)
        if f"clip{index}" == broken:
            array[:] = np.nan
        clips.append(MemoryClip(f"clip{index}", array))
    return MemoryClips(clips)


class ToySolver(StandardSolver[ToyConfig]):
    Config: ClassVar[type[SolverConfig]] = ToyConfig

    def best_metric(self) -> str:
        return "loss"

    def build_dataloaders(self) -> None:
        fabric = self.fabric
        ranks = {"rank": fabric.global_rank, "world_size": fabric.world_size}
        train = Crop(num_frames=8, batch_size=self.cfg.batch_size)
        fixed = Crop(num_frames=8, batch_size=self.cfg.batch_size, shuffle=False, random_start=False)
        source = noisy_clips(self.cfg.num_clips, self.cfg.broken_clip)
        held_out = noisy_clips(6)
        self.dataloaders = {
            "train": make_loader(source, train, seed=self.cfg.seed, num_workers=self.cfg.num_workers, **ranks),
            "valid": make_loader(held_out, fixed, **ranks),
            "evaluate": make_loader(held_out, fixed, **ranks),
        }

    def build_model(self) -> None:
        self.model = nn.Sequential(
            nn.Linear(3, self.cfg.hidden), nn.GELU(), nn.Dropout(0.2), nn.Linear(self.cfg.hidden, 1)
        )
        self.optimizer = build_optimizer(self.model, self.cfg.optim)
        self.register_stateful("model", "optimizer")
        self.register_best("model")
        self.register_ema("model")

    def run_step(self, idx: int, batch: Batch, metrics: Metrics) -> Metrics:
        if self.cfg.step_seconds:
            import time

            time.sleep(self.cfg.step_seconds)
        wanted = batch.arrays.mean(dim=(1, 2))
        found = self.model(batch.arrays).mean(dim=(1, 2))
        errors = (found - wanted).square()
        if self.is_training:
            self.update(errors.sum() * self.fabric.world_size / batch.global_rows)
        metrics["loss"] = errors.detach().mean() if len(errors) else torch.zeros(())
        return metrics

    def generate(self) -> Metrics:
        clip = GeneratedClip("tone", torch.randn(1, 16) * 0.1, 8000)
        if self.is_first_rank:
            self.experiment.watcher.clips("generate", self.epoch, [clip])
        return {"clips": 1.0}


def changed(values: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Change settings in place: `optim__epochs` is the key `epochs` inside `optim`."""
    for key, value in changes.items():
        *outer, name = key.split("__")
        place = values
        for part in outer:
            place = place.setdefault(part, {})
        place[name] = value
    return values


def toy_values(**changes: Any) -> dict[str, Any]:
    """Settings of a short run; dotted keys change parts of them."""
    values: dict[str, Any] = {
        "solver": "tests.solvers.toy:ToySolver",
        "device": "cpu",
        "optim": {
            "epochs": 3,
            "updates_per_epoch": 7,
            "optimizer": {"kind": "adamw", "lr": 0.01},
            "schedule": {"kind": "cosine", "warmup_updates": 3},
            "ema": {"decay": 0.9},
        },
        "evaluate": {"every": 2},
        "generate": {"every": 2},
        "logging": {"tensorboard": False, "log_updates": 1},
    }
    return changed(values, changes)
