"""Watchers: the events of a run, the fan-out to several watchers, and the line that sums up a stage.

A watcher sees plain numbers and finished audio, never tensors with a graph, and only on the first rank. If one fails,
the run stops: a log with silent gaps is worse than a stop that names its cause.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import Field

from solfa.config import Config
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.spelling import duration
from solfa.xp.layout import TENSORBOARD

if TYPE_CHECKING:
    from solfa.solvers.evidence.comparison import Evidence

MAX_METRICS = 8
"""How many metrics a summary line shows; the history has all of them."""


@runtime_checkable
class Watcher(Protocol):
    """Follows a run; override the events that you want to hear about.

    >>> from solfa.solvers import Watcher, Watchers
    >>> class Printed(Watcher):
    ...     def stage_finished(self, stage, epoch, metrics, seconds):
    ...         print(stage, epoch, metrics)
    >>> Watchers([Printed()]).stage_finished("valid", 1, {"loss": 0.5}, 2.0)
    valid 1 {'loss': 0.5}
    """

    def planned(self, facts: Sequence[tuple[str, str]]) -> None:
        """Handle what is known before anything large is built: names and values, for people."""
        return

    def started(self, folder: Path, hyper_parameters: Mapping[str, Any]) -> None:
        """Handle the start of the run, given the experiment's folder and its whole config."""
        return

    def stage_started(self, stage: str, epoch: int, total: int | None) -> None:
        """Handle the start of a stage; epochs count from 1, `total` is its number of steps, if known."""
        return

    def step(self, done: int, metrics: Mapping[str, float]) -> None:
        """Handle progress: `done` steps of the stage, counted from its start even if it was resumed."""
        return

    def tick(self, done: int) -> None:
        """Handle a step whose metrics nobody has looked at; those that are measured come with `step`."""
        return

    def stage_finished(self, stage: str, epoch: int, metrics: Mapping[str, float], seconds: float) -> None:
        """Handle the end of a stage and its metrics."""
        return

    def clips(self, stage: str, epoch: int, clips: Sequence[GeneratedClip]) -> None:
        """Handle generated clips."""
        return

    def changed(self, evidence: "Evidence") -> None:
        """Handle what became of the weights that the run started from, once it has ended."""
        return

    def stopping(self, sentence: str) -> None:
        """Handle a signal to stop, as soon as it arrives, from another thread; the run ends after its update."""
        return

    def closed(self) -> None:
        """Handle the end of the run, finished or failed: write out what is left."""
        return


class Watchers(Watcher):
    """Several watchers as one, notified in order.

    >>> from solfa.solvers import Watcher, Watchers
    >>> class Named(Watcher):
    ...     def stage_started(self, stage, epoch, total):
    ...         print(stage, epoch)
    >>> Watchers([Named(), Named()]).stage_started("train", 1, None)
    train 1
    train 1
    """

    def __init__(self, watchers: Sequence[Watcher] = ()) -> None:
        self.watchers = tuple(watchers)

    def planned(self, facts: Sequence[tuple[str, str]]) -> None:
        for watcher in self.watchers:
            watcher.planned(facts)

    def started(self, folder: Path, hyper_parameters: Mapping[str, Any]) -> None:
        for watcher in self.watchers:
            watcher.started(folder, hyper_parameters)

    def stage_started(self, stage: str, epoch: int, total: int | None) -> None:
        for watcher in self.watchers:
            watcher.stage_started(stage, epoch, total)

    def step(self, done: int, metrics: Mapping[str, float]) -> None:
        for watcher in self.watchers:
            watcher.step(done, metrics)

    def tick(self, done: int) -> None:
        for watcher in self.watchers:
            watcher.tick(done)

    def stage_finished(self, stage: str, epoch: int, metrics: Mapping[str, float], seconds: float) -> None:
        for watcher in self.watchers:
            watcher.stage_finished(stage, epoch, metrics, seconds)

    def clips(self, stage: str, epoch: int, clips: Sequence[GeneratedClip]) -> None:
        for watcher in self.watchers:
            watcher.clips(stage, epoch, clips)

    def changed(self, evidence: "Evidence") -> None:
        for watcher in self.watchers:
            watcher.changed(evidence)

    def stopping(self, sentence: str) -> None:
        for watcher in self.watchers:
            watcher.stopping(sentence)

    def closed(self) -> None:
        """Close every watcher even if another fails; the error is raised afterwards."""
        with ExitStack() as stack:
            for watcher in reversed(self.watchers):
                stack.callback(watcher.closed)


class WandbConfig(Config):
    """Where Weights & Biases keeps the run."""

    project: str
    entity: str | None = None
    group: str | None = None
    name: str | None = None
    tags: tuple[str, ...] = ()

    def build(self, folder: Path, updates_per_epoch: int) -> Watcher:
        if importlib.util.find_spec("wandb") is None:
            raise ConfigError(
                "logging.wandb: wandb is not installed; run `pip install wandb`, or set logging.wandb=null"
            )
        from solfa.solvers.watchers.wandb import WandbWatcher

        return WandbWatcher(folder, self, updates_per_epoch)


class LoggingConfig(Config):
    """What is logged about a run besides its history."""

    log_updates: int = Field(default=10, ge=1)
    """Updates between two points of a curve."""
    tensorboard: bool = True
    wandb: WandbConfig | None = None

    def build(self, folder: Path, updates_per_epoch: int) -> list[Watcher]:
        """Build the configured watchers, which write into the experiment's folder."""
        watchers: list[Watcher] = []
        if self.tensorboard:
            from solfa.solvers.watchers.tensorboard import TensorBoardWatcher

            watchers.append(TensorBoardWatcher(folder / TENSORBOARD, updates_per_epoch))
        if self.wandb is not None:
            watchers.append(self.wandb.build(folder, updates_per_epoch))
        return watchers


def summary_line(
    stage: str,
    epoch: int,
    epochs: int | None,
    metrics: Mapping[str, float],
    seconds: float,
    rate: float | None = None,
) -> str:
    """Sum up a stage: `train  epoch 3/10  loss 2.314  ppl 10.1  lr 3.0e-04  12.3 updates/s  41.2 s`."""
    parts = [f"{stage:<8}", f"epoch {epoch}" + (f"/{epochs}" if epochs else ""), *metric_words(metrics)]
    if rate is not None:
        parts.append(f"{_number(rate)} {step_unit(stage)}/s")
    return "  ".join([*parts, duration(seconds)])


def metric_words(metrics: Mapping[str, float], most: int = MAX_METRICS) -> list[str]:
    """Format at most `most` metrics for people, the usual ones first."""
    first = [name for name in ("loss", "ppl", "lr") if name in metrics]
    names = first + [name for name in metrics if name not in first]
    return [
        f"{name} {metrics[name]:.1e}" if name == "lr" else f"{name} {_number(metrics[name])}" for name in names[:most]
    ]


def step_unit(stage: str) -> str:
    """Return the unit that a stage counts in; generating counts what the model draws one after the other."""
    return {"train": "updates", "generate": "steps"}.get(stage, "batches")


def _number(value: float) -> str:
    size = abs(value)
    if size == 0 or 1e-3 <= size < 10:
        return f"{value:.3f}"
    return f"{value:.1f}" if 10 <= size < 1e4 else f"{value:.3g}"
