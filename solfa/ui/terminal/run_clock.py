"""How long the rest of a run takes: updates at the rate that was measured, other stages as long as they took."""

from collections.abc import Mapping
from typing import NamedTuple

from solfa.solvers.config import SolverConfig


class RunShape(NamedTuple):
    """How many epochs and updates a run has, and how often the stages beside training come."""

    epochs: int
    updates_per_epoch: int
    every: Mapping[str, int]
    """Epochs between runs of a stage, which also comes after the last one; those that never come are left out."""

    @classmethod
    def of(cls, cfg: SolverConfig) -> "RunShape":
        """Read it from the settings."""
        wanted = {"valid": 1, "evaluate": cfg.evaluate.every, "generate": cfg.generate.every}
        every = {stage: number for stage, number in wanted.items() if number is not None}
        return cls(cfg.optim.epochs, cfg.optim.updates_per_epoch, every)


class RunClock:
    """Learns from every stage how long it takes."""

    def __init__(self, shape: RunShape) -> None:
        self.shape = shape
        self._took: dict[str, float] = {}

    def finished(self, stage: str, seconds: float) -> None:
        """Take in how long a stage took; the latest counts."""
        self._took[stage] = seconds

    def seconds_left(self, epoch: int, updates: int, rate: float) -> float:
        """Estimate the rest of a run that trains at `rate` updates per second, after `updates` of an epoch.

        What a stage takes that has not run yet is not known, and counts nothing.
        """
        shape = self.shape
        left = (shape.epochs - epoch) * shape.updates_per_epoch + shape.updates_per_epoch - updates
        others = sum(self._times(stage, epoch) * self._took.get(stage, 0.0) for stage in shape.every)
        return left / rate + others

    def _times(self, stage: str, epoch: int) -> int:
        """Count how often a stage comes from the end of this epoch on."""
        every, last = self.shape.every[stage], self.shape.epochs
        return last // every - (epoch - 1) // every + (1 if last % every else 0)
