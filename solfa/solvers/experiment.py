"""What a solver knows about the experiment it runs in: a folder, a name, and a watcher."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from solfa.errors import ConfigError
from solfa.files.whole_files import replace_atomically
from solfa.solvers.judge import Judge
from solfa.solvers.watchers.protocol import Watcher, Watchers
from solfa.xp.layout import EVIDENCE, HISTORY, stage_path


class PlanTold(Exception):  # noqa: N818 - nothing is wrong: it ends a dry run
    """Raised while a solver is built for a dry run, before anything is written."""


class Experiment(NamedTuple):
    """An experiment is its folder; the signature is its name.

    A solver is built with one: `MySolver(cfg, Experiment(Path("runs/first"), "first"))`.
    """

    folder: Path
    signature: str
    watcher: Watcher = Watchers(())
    is_dry: bool = False
    """Building a solver ends with `PlanTold` once its watcher knows what the run would take."""
    provenance: Mapping[str, Any] | None = None
    """Where its results come from, in plain values; stored in checkpoints."""
    judge: Judge | None = None
    """Who compares generated clips with real ones, if `evaluate.metrics` asks for it."""

    def write_history(self, history: Sequence[Mapping[str, Mapping[str, float]]]) -> None:
        """Write the metrics of all epochs, stage by stage, where Dora looks for them."""
        _write_json(self.folder / HISTORY, list(history))

    def write_stage(self, stage: str, epoch: int, metrics: Mapping[str, float]) -> None:
        """Write the result of a stage that was run on its own."""
        _write_json(stage_path(self.folder, stage), {"epoch": epoch, "metrics": dict(metrics)})

    def write_evidence(self, values: Mapping[str, Any]) -> None:
        """Write what became of the weights that the run started from."""
        _write_json(self.folder / EVIDENCE, values)


_current: ContextVar[Experiment | None] = ContextVar("experiment", default=None)
S = TypeVar("S")


def build_solver(solver: Callable[..., S], cfg: Any, experiment: Experiment) -> S:
    """Build a solver for an experiment, also one whose constructor takes only `cfg`, as AudioCraft's do."""
    inside = _current.set(experiment)
    try:
        inspect.signature(solver).bind(cfg, experiment)
    except TypeError:
        arguments: tuple[Any, ...] = (cfg,)
    else:
        arguments = (cfg, experiment)
    try:
        return solver(*arguments)
    finally:
        _current.reset(inside)


def current_experiment() -> Experiment:
    """Return the experiment that a solver is being built for."""
    experiment = _current.get()
    if experiment is None:
        raise ConfigError(
            "`experiment`: a solver that is built by hand needs one: MySolver(cfg, Experiment(Path('runs/first'), "
            "'first')), and a constructor of its own passes it on: super().__init__(cfg, experiment)"
        )
    return experiment


def _write_json(path: Path, value: Any) -> None:
    replace_atomically(path, json.dumps(value, indent=2).encode())
