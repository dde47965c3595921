"""What every solver is told: the parts of the composed YAML that do not depend on the task.

A solver's own config extends `SolverConfig` by its model and whatever else it needs.
"""

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from solfa.config import Config
from solfa.data.batching.stage_batches import Batching
from solfa.data.sources.dset import Dset, Stage
from solfa.solvers.optim.optimizer import OptimConfig
from solfa.solvers.watchers.protocol import LoggingConfig

__all__ = ["CheckpointConfig", "Precision", "SolverConfig", "Stage", "StageConfig"]

Precision = Literal["32-true", "16-mixed", "bf16-mixed", "bf16-true"]


class CheckpointConfig(Config):
    """When the state of a run is written, and how many of the copies are kept."""

    save_every: PositiveInt | None = None
    """Keep a copy every so many epochs; the last state is always written."""
    keep_last: PositiveInt | None = None
    """Keep only so many of these copies; None keeps all."""
    minutes: float | None = Field(default=10.0, gt=0)
    """Write the state within an epoch whenever so much time has passed; None writes only between stages."""


class StageConfig(Config):
    """When a stage that is not part of every epoch runs; with `every`, it also runs after the last epoch."""

    every: PositiveInt | None = None
    """Run after every so many epochs; None never runs it."""


class SolverConfig(Config):
    """The settings of a run that are the same for every task."""

    solver: str
    """A module of `solfa.solvers`, or `package.module:Class` of one's own."""
    seed: NonNegativeInt = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Precision = "32-true"
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    num_threads: PositiveInt | None = None
    """Threads of each process on a CPU; None is what torch takes. A tiny model is fastest with one."""
    num_nodes: PositiveInt = 1
    dset: Dset | None = None
    dataset: Batching | None = None
    optim: OptimConfig
    checkpoint: CheckpointConfig = CheckpointConfig()
    evaluate: StageConfig = StageConfig()
    generate: StageConfig = StageConfig()
    logging: LoggingConfig = LoggingConfig()
    execute_only: Literal["valid", "evaluate", "generate"] | None = None
    """Run one stage with what was trained so far, and nothing else."""
    continue_from: str | None = None
    """An experiment's folder (`//sig/SIG`), a checkpoint file, or pretrained weights that the solver knows."""
    continue_keep: tuple[Literal["optimizer", "schedule"], ...] = ()
    """What else than the weights is taken over from there; everything that is not named starts afresh."""
    on_changed_default: Literal["refuse", "keep", "adopt"] = "refuse"
    """What to do if the experiment was begun with other defaults: stop, go on with the old, go on with the new."""
