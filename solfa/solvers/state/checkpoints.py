"""Save and restore a solver: what a checkpoint holds, and where a run starts from.

A run resumes from its own folder if there is a state in it, otherwise it starts from `continue_from` or from scratch;
the log says which. Every process takes part in saving, because each has its own random generators and averages; the
first one writes.
"""

import logging
import math
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import Tensor

from solfa.errors import ConfigError
from solfa.generate.base_weights import BaseWeights, read_base
from solfa.pretrained.origin import Origin, origin
from solfa.pretrained.tensors import weights_sha256
from solfa.solvers.config import SolverConfig
from solfa.solvers.experiment import Experiment
from solfa.solvers.fabric.devices import gather_objects
from solfa.solvers.loop.averages import Averages, Metrics
from solfa.solvers.loop.randomness import random_state, restore_random_state
from solfa.solvers.loop.stage_loaders import go_to, position_of
from solfa.solvers.optim.ema import Ema
from solfa.solvers.optim.schedules import Schedule
from solfa.solvers.state.adapter_base import attached_to
from solfa.solvers.state.registry import Registry
from solfa.xp.layout import BEST, LAST, copied_epochs, copy_path
from solfa.xp.mirror import RunProgress, mirror_of, restore_folder
from solfa.xp.mirror_writer import MirrorWriter
from solfa.xp.state_file import read_state, remove_leftovers, superfluous, write_state

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger(__name__)


class RunPosition(NamedTuple):
    """How far a run has got."""

    epoch: int
    """The current epoch, counted from 1."""
    num_updates: int
    """Updates done in this epoch."""
    history: list[dict[str, Metrics]]
    averages: Averages
    """The metrics of this epoch so far, on this process."""


class Kept(Protocol):
    """What a checkpoint covers besides registered attributes; it is only read, and its parts are loaded in place."""

    @property
    def cfg(self) -> SolverConfig: ...
    @property
    def experiment(self) -> Experiment: ...
    @property
    def fabric(self) -> "Fabric": ...
    @property
    def schedules(self) -> Mapping[str, Schedule]: ...
    @property
    def ema(self) -> Ema | None: ...
    @property
    def dataloaders(self) -> Mapping[str, Any]: ...
    @property
    def data_facts(self) -> Mapping[str, Any]: ...
    @property
    def is_first_rank(self) -> bool: ...
    @property
    def reads_files(self) -> bool: ...
    def load_pretrained(self, location: str) -> str: ...
    def frozen_parts(self) -> Mapping[str, Origin]: ...


class Persistence:
    """The checkpoints of one run; restoring one returns the position, for the solver to adopt."""

    def __init__(self, kept: Kept, registry: Registry) -> None:
        self._kept, self._registry = kept, registry
        self._folder = kept.experiment.folder
        self._best: dict[str, Any] = {"epoch": 0, "value": math.inf}
        self._started_from: Origin | None = None
        self._saved_at = time.monotonic()
        place = kept.cfg.checkpoint.mirror
        self._mirror = None if place is None else mirror_of(place, kept.experiment.signature)
        self._mirroring = MirrorWriter(self._mirror, self._folder) if self._mirror and kept.is_first_rank else None

    def is_due(self) -> bool:
        """Say whether enough time has passed to save within an epoch."""
        minutes = self._kept.cfg.checkpoint.minutes
        return minutes is not None and time.monotonic() - self._saved_at >= 60 * minutes

    def describe_saved(self) -> str:
        """Say where the run can resume from."""
        if not (self._folder / LAST).is_file():
            return "nothing has been saved yet"
        return f"the last good state is in {self._folder / LAST}"

    def save(self, position: RunPosition) -> None:
        """Save the current state."""
        kept = self._kept
        state = {
            "epoch": position.epoch,
            "num_updates": position.num_updates,
            "states": self._registry.states(),
            "schedules": {name: schedule.state_dict() for name, schedule in kept.schedules.items()},
            "ema": kept.ema.state_dict() if kept.ema is not None else None,
            "best": self._best,
            "started_from": self._started_from,
            "loader": position_of(kept.dataloaders["train"]),
            "history": position.history,
            "data_facts": kept.data_facts,
            "provenance": dict(kept.experiment.provenance or {}),
            "random": gather_objects(kept.fabric, random_state()),
            "averages": gather_objects(kept.fabric, position.averages.state()),
        }
        if kept.is_first_rank:
            write_state(self._folder / LAST, state)
            self.mirror(position)
        kept.fabric.barrier()
        self._saved_at = time.monotonic()

    def mirror(self, position: RunPosition) -> None:
        """Let what is new in the folder be copied to the mirror, if there is one."""
        if self._mirroring is not None:
            self._mirroring.update(RunProgress(position.epoch, position.num_updates))

    def mirroring(self) -> AbstractContextManager[object]:
        """Copy until the end of the context; everything has been copied then."""
        return self._mirroring or nullcontext()

    def keep_copy(self, epoch: int) -> None:
        """Copy the last state if this epoch is to be kept, and remove surplus copies."""
        every, keep_last = self._kept.cfg.checkpoint.save_every, self._kept.cfg.checkpoint.keep_last
        if not self._kept.is_first_rank:
            return
        if every is not None and epoch % every == 0:
            temporary = self._folder / f".{LAST}.{epoch}"
            temporary.unlink(missing_ok=True)
            _second_name(self._folder / LAST, temporary)
            temporary.replace(copy_path(self._folder, epoch))
        for old in superfluous(copied_epochs(self._folder), keep_last):
            copy_path(self._folder, old).unlink()

    def note_best(self, epoch: int, results: Mapping[str, Metrics], metric: str | None, *, takes_last: bool) -> None:
        """Keep the current weights if this epoch is the best so far, or if the last one is to be kept."""
        if not self._registry.best:
            return
        value = -float(epoch) if metric is None else _metric(results, metric)
        if not (takes_last or value < self._best["value"]):
            return
        self._best = {"epoch": epoch, "value": value}
        states = self._registry.best_states()
        if self._kept.is_first_rank:
            content = {**self._best, "metric": metric, "data_facts": self._kept.data_facts, "states": states}
            content["provenance"] = dict(self._kept.experiment.provenance or {})
            others = {"started_from": self._started_from, "parts": dict(self._kept.frozen_parts())}
            write_state(self._folder / BEST, {**content, **{name: value for name, value in others.items() if value}})
        self._kept.fabric.barrier()

    def best_states(self) -> dict[str, Any]:
        """Read the best weights so far; empty if there are none yet."""
        path = self._folder / BEST
        return dict(read_state(path)["states"]) if self._registry.best and path.exists() else {}

    def restore(self) -> RunPosition | None:
        """Load the state in the run's folder and return how far it had got.

        None if the run starts from scratch, or from the weights of `continue_from`.
        """
        kept, own = self._kept, self._folder / LAST
        if kept.is_first_rank:
            remove_leftovers(self._folder)
        self._bring_back()
        if own.exists():
            position = self._resume(read_state(own))
            self._begin_mirroring(RunProgress(position.epoch, position.num_updates))
            updates = f" after {position.num_updates} updates" if position.num_updates else ""
            where = f"epoch {position.epoch}{updates}"
            logger.info("resuming %s from its folder %s at %s", kept.experiment.signature, self._folder, where)
            return position
        self._begin_mirroring(None)
        if kept.cfg.continue_from is not None:
            self._continue_from(kept.cfg.continue_from)
        elif kept.cfg.execute_only is not None:
            raise ConfigError(
                f"execute_only={kept.cfg.execute_only}: expected a trained experiment, found no checkpoint in "
                f"{self._folder}; train it first, or set continue_from"
            )
        return None

    def _bring_back(self) -> None:
        """Fetch the folder from its mirror if it is gone; all processes wait for the first."""
        if self._mirror is None:
            return
        if self._kept.is_first_rank:
            restore_folder(self._mirror, self._folder)
        self._kept.fabric.barrier()

    def _begin_mirroring(self, progress: RunProgress | None) -> None:
        if self._mirroring is not None:
            self._mirroring.begin(progress)

    @property
    def started_from(self) -> Origin | None:
        """The weights that the run started from; None if it started from scratch."""
        return self._started_from

    @property
    def best_epoch(self) -> int:
        """The epoch with the best weights so far; 0 before the first."""
        return int(self._best["epoch"])

    def _resume(self, state: Mapping[str, Any]) -> RunPosition:
        kept = self._kept
        self._registry.load(state["states"])
        for name, schedule in kept.schedules.items():
            schedule.load_state_dict(state["schedules"][name])
        if kept.ema is not None and state["ema"] is not None:
            kept.ema.load_state_dict(state["ema"])
        self._best = dict(state["best"])
        self._started_from = state.get("started_from")
        go_to(kept.dataloaders["train"], state["loader"])
        rank, world_size = kept.fabric.global_rank, kept.fabric.world_size
        if len(state["random"]) == world_size:
            restore_random_state(state["random"][rank])
            averages = Averages.of([state["averages"][rank]])
        else:
            # Batches stay the same, but the random draws of each process (dropout) cannot.
            logger.info("saved by %d processes, resumed by %d", len(state["random"]), world_size)
            averages = Averages.of(state["averages"] if rank == 0 else [])
        return RunPosition(state["epoch"], state["num_updates"], list(state["history"]), averages)

    def _continue_from(self, location: str) -> None:
        attached = attached_to(self._registry.modules)
        if attached is not None:
            self._started_from = attached.base  # loaded when the network was built
            return
        keep = self._kept.cfg.continue_keep
        found = read_base(location, wants_last=bool(keep), reads_files=self._kept.reads_files)
        if found is not None:
            self._take_over(found, keep)
        elif keep:
            raise ConfigError(f"continue_keep: {location} is not an experiment's checkpoint; leave out {keep}")
        else:
            logger.info("continue_from: %s", self._kept.load_pretrained(location))
        weights = self._registry.best_states().get("model") or {}
        tensors = {name: value for name, value in weights.items() if isinstance(value, Tensor)}
        self._started_from = origin(location, weights_sha256(tensors))

    def _take_over(self, found: BaseWeights, keep: tuple[str, ...]) -> None:
        path, state = found
        wanted = {*self._registry.modules, *(self._registry.optimizers if "optimizer" in keep else ())}
        taken = [name for name in state["states"] if name in wanted]
        self._registry.load({name: state["states"][name] for name in taken}, taken)
        if "optimizer" in keep and not set(taken) & set(self._registry.optimizers):
            raise ConfigError(f"continue_keep=optimizer: {path} has no optimiser state; use a {LAST}")
        for name, schedule in self._kept.schedules.items():
            if "schedule" in keep:
                schedule.load_state_dict(state["schedules"][name])
            schedule.apply()  # a loaded optimiser brings the learning rate of its last update
        taken += ["schedule"] if "schedule" in keep else []
        missing = set(self._registry.modules) - set(taken)
        if missing:
            raise ConfigError(
                f"continue_from: {path} has no {', '.join(sorted(missing))}; it belongs to another solver"
            )
        fresh = sorted({*self._registry.optimizers, "schedule"} - set(taken))
        logger.info(
            "continue_from: loaded %s from %s (epoch %s); %s", ", ".join(taken), path, state["epoch"],
            f"{', '.join(fresh)} start fresh" if fresh else "nothing starts fresh",
        )  # fmt: skip


def _metric(results: Mapping[str, Metrics], name: str) -> float:
    metrics = results.get("valid") or results["train"]
    if name not in metrics:
        raise ConfigError(f"best_metric: expected one of {', '.join(metrics)}, found {name!r}")
    return float(metrics[name])


def _second_name(path: Path, other: Path) -> None:
    # The state is never modified in place, only replaced, so a hard link is a free copy.
    try:
        os.link(path, other)
    except OSError:
        # This file system has no hard links; any other error will stop the copy, too.
        shutil.copyfile(path, other)
