"""A solver of a user's own, as small as can be: it finds the number that its data is, and may take its time."""

import os
import time
from pathlib import Path
from typing import Any, ClassVar

import torch

from solfa.errors import ConfigError
from solfa.solvers.config import SolverConfig
from solfa.solvers.optim.optimizer import build_optimizer
from solfa.solvers.standard import StandardSolver


class OwnConfig(SolverConfig):
    target: float = 3.0
    seconds_per_step: float = 0.0
    fail: bool = False
    refuse: bool = False


class Number(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.value = torch.nn.Parameter(torch.zeros(1))

    def forward(self) -> torch.Tensor:
        return self.value


class OwnSolver(StandardSolver[OwnConfig]):
    Config: ClassVar[type[SolverConfig]] = OwnConfig

    def __init__(self, cfg: OwnConfig, *arguments: Any) -> None:
        if cfg.fail:  # before Fabric is imported, which takes seconds
            raise RuntimeError("asked to fail")
        if cfg.refuse:
            raise ConfigError("refuse: asked to refuse")
        super().__init__(cfg, *arguments)

    def build_dataloaders(self) -> None:
        self.dataloaders["train"] = [torch.full((2, 1), self.cfg.target)] * 2
        self.dataloaders["valid"] = [torch.full((2, 1), self.cfg.target)]

    def build_model(self) -> None:
        self.model = Number()
        self.optimizer = build_optimizer(self.model, self.cfg.optim)
        self.register_stateful("model", "optimizer")

    def run_step(self, idx, batch, metrics):
        time.sleep(self.cfg.seconds_per_step)
        loss = (self.model() - batch).square().mean()
        if self.is_training:
            self.update(loss)
            (Path(self.experiment.folder) / f"alive.{self.fabric.global_rank}").write_text(str(os.getpid()))
        metrics["loss"] = loss.detach()
        return metrics
