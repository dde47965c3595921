"""The entry point of a run: `solfa.train(...)` in Python, `solfa train` and `dora run` in a terminal.

compose (Hydra) ──► validate (pydantic) ──► the settings of the experiment ──► data ──► solver.run()

Dora needs a module of this name and people call a function of this name, so the module is callable.
"""

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from dora.xp import XP

from solfa.experiments.compose.default_solver import compose_here
from solfa.experiments.compose.experiment_main import ExperimentMain
from solfa.experiments.compose.overrides import as_overrides
from solfa.experiments.processes.ddp import supply_dora
from solfa.experiments.processes.grid import supply_dora_jobs
from solfa.experiments.run.execution import run_experiment
from solfa.experiments.trained_run import Run

supply_dora()
supply_dora_jobs()


@ExperimentMain
def main(xp: XP) -> None:
    """Run a composed experiment."""
    run_experiment(xp, main.settings(xp), main.environment)


def train(overrides: str | Sequence[str] = (), *, clear: bool = False, **settings: Any) -> Run:
    """Train an experiment in this process, or continue it, and return the finished run.

    `overrides` are written as on the command line, `settings` are keys by name, with mappings for what is inside them;
    both determine the signature. Without a solver among them, the one that suits this machine is used. `clear` deletes
    what an earlier run of the same experiment left. After an interruption, the same call resumes.

    >>> import solfa
    >>> data = {"train": "music.solfa", "hold_out": {"clips": 1}}
    >>> run = solfa.train("solver=lm/debug", dset=data, optim={"epochs": 1, "updates_per_epoch": 6})
    >>> run.folder.name == run.signature, [sorted(epoch) for epoch in run.history]
    (True, [['evaluate', 'generate', 'train', 'valid']])
    >>> run.model.generate(seconds=1)[0].samples().shape
    (1, 24000)
    """
    typed = [overrides] if isinstance(overrides, str) else overrides
    experiment, _ = compose_here(main, [*typed, *as_overrides(settings)])
    main.check(experiment, is_cleared=clear)
    if clear:
        main.clear(experiment)
    main.start(experiment)
    return Run(experiment.folder, experiment.sig)


class _Callable(ModuleType):
    """This module, as a function."""

    def __call__(self, overrides: str | Sequence[str] = (), *, clear: bool = False, **settings: Any) -> Run:
        return train(overrides, clear=clear, **settings)


sys.modules[__name__].__class__ = _Callable
