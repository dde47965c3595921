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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solfa.errors import ConfigError
from solfa.solvers.fabric.devices import gather_objects
from solfa.solvers.loop.averages import Averages, Metrics
from solfa.solvers.loop.randomness import random_state, restore_random_state
from solfa.solvers.loop.stage_loaders import go_to, position_of
from solfa.solvers.state.registry import Registry, load_state
from solfa.xp.layout import BEST, LAST, copied_epochs, copy_path
from solfa.xp.state_file import read_state, remove_leftovers, superfluous, write_state

if TYPE_CHECKING:
    from solfa.solvers.standard import StandardSolver

logger = logging.getLogger(__name__)


class Persistence:
    """The checkpoints of one solver."""

    def __init__(self, solver: "StandardSolver[Any]", registry: Registry) -> None:
        self._solver, self._registry = solver, registry
        self._folder = solver.experiment.folder
        self._best: dict[str, Any] = {"epoch": 0, "value": math.inf}
        self._saved_at = time.monotonic()

    def is_due(self) -> bool:
        """Say whether enough time has passed to save within an epoch."""
        minutes = self._solver.cfg.checkpoint.minutes
        return minutes is not None and time.monotonic() - self._saved_at >= 60 * minutes

    def describe_saved(self) -> str:
        """Say where the run can resume from."""
        if not (self._folder / LAST).is_file():
            return "nothing has been saved yet"
        return f"the last good state is in {self._folder / LAST}"

    def save(self) -> None:
        """Save the current state."""
        solver = self._solver
        state = {
            "epoch": solver.epoch,
            "num_updates": solver.num_updates,
            "states": self._registry.states(),
            "schedules": {name: schedule.state_dict() for name, schedule in solver.schedules.items()},
            "ema": solver.ema.state_dict() if solver.ema is not None else None,
            "best": self._best,
            "loader": position_of(solver.dataloaders["train"]),
            "history": solver.history,
            "data_facts": solver.data_facts,
            "random": gather_objects(solver.fabric, random_state()),
            "averages": gather_objects(solver.fabric, solver.averages.state()),
        }
        if solver.is_first_rank:
            write_state(self._folder / LAST, state)
        solver.fabric.barrier()
        self._saved_at = time.monotonic()

    def keep_copy(self, epoch: int) -> None:
        """Copy the last state if this epoch is to be kept, and remove surplus copies."""
        every, keep_last = self._solver.cfg.checkpoint.save_every, self._solver.cfg.checkpoint.keep_last
        if not self._solver.is_first_rank:
            return
        if every is not None and epoch % every == 0:
            temporary = self._folder / f".{LAST}.{epoch}"
            temporary.unlink(missing_ok=True)
            _second_name(self._folder / LAST, temporary)
            temporary.replace(copy_path(self._folder, epoch))
        for old in superfluous(copied_epochs(self._folder), keep_last):
            copy_path(self._folder, old).unlink()

    def note_best(self, results: Mapping[str, Metrics], metric: str | None) -> None:
        """Keep the current weights if this epoch is the best so far."""
        if not self._registry.best:
            return
        value = -float(self._solver.epoch) if metric is None else _metric(results, metric)
        if not value < self._best["value"]:
            return
        self._best = {"epoch": self._solver.epoch, "value": value}
        states = self._registry.best_states()
        if self._solver.is_first_rank:
            content = {**self._best, "metric": metric, "data_facts": self._solver.data_facts, "states": states}
            write_state(self._folder / BEST, content)
        self._solver.fabric.barrier()

    def best_states(self) -> dict[str, Any]:
        """Read the best weights so far; empty if there are none yet."""
        path = self._folder / BEST
        return dict(read_state(path)["states"]) if self._registry.best and path.exists() else {}

    def restore(self) -> None:
        """Restore the solver from its folder, or else from `continue_from`."""
        solver = self._solver
        if solver.is_first_rank:
            remove_leftovers(self._folder)
        own = self._folder / LAST
        if own.exists():
            self._resume(read_state(own))
            where = f"epoch {solver.epoch}" + (f" after {solver.num_updates} updates" if solver.num_updates else "")
            logger.info("resuming %s from its folder %s at %s", solver.experiment.signature, self._folder, where)
        elif solver.cfg.continue_from is not None:
            self._continue_from(solver.cfg.continue_from)
        elif solver.cfg.execute_only is not None:
            raise ConfigError(
                f"execute_only={solver.cfg.execute_only}: expected a trained experiment, found no checkpoint in "
                f"{self._folder}; train it first, or set continue_from"
            )

    def _resume(self, state: Mapping[str, Any]) -> None:
        solver = self._solver
        self._load(state["states"], state["schedules"])
        if solver.ema is not None and state["ema"] is not None:
            solver.ema.load_state_dict(state["ema"])
        solver.epoch, solver.num_updates = state["epoch"], state["num_updates"]
        solver.history = list(state["history"])
        self._best = dict(state["best"])
        go_to(solver.dataloaders["train"], state["loader"])
        rank, world_size = solver.fabric.global_rank, solver.fabric.world_size
        if len(state["random"]) == world_size:
            restore_random_state(state["random"][rank])
            solver.averages = Averages.of([state["averages"][rank]])
        else:
            # Batches stay the same, but the random draws of each process (dropout) cannot.
            logger.info("saved by %d processes, resumed by %d", len(state["random"]), world_size)
            solver.averages = Averages.of(state["averages"] if rank == 0 else [])
        if solver.is_first_rank:
            solver.experiment.write_history(solver.history)

    def _load(self, states: Mapping[str, Any], schedules: Mapping[str, Any]) -> None:
        sharded_by = self._registry.sharding_module()
        for name in self._registry.stateful:
            if name not in states:
                raise ConfigError(f"checkpoint: it has no {name!r}, which this solver registers as stateful")
            value = load_state(name, getattr(self._solver, name), states[name], sharded_by)
            setattr(self._solver, name, value)
        for name, schedule in self._solver.schedules.items():
            schedule.load_state_dict(schedules[name])

    def _continue_from(self, location: str) -> None:
        path = Path(location).expanduser()
        keep = self._solver.cfg.continue_keep
        if path.is_dir() and ((path / LAST).exists() or (path / BEST).exists()):
            path = path / (LAST if keep or not (path / BEST).exists() else BEST)
        if not path.is_file():
            if keep:
                raise ConfigError(f"continue_keep: {location} is not an experiment's checkpoint; leave out {keep}")
            logger.info("continue_from: %s", self._solver.load_pretrained(location))
        else:
            self._take_over(path, read_state(path), keep)
        self._solver.start_ema()

    def _take_over(self, path: Path, state: Mapping[str, Any], keep: tuple[str, ...]) -> None:
        taken = []
        for name, value in state["states"].items():
            attribute = getattr(self._solver, name, None)
            if name in self._registry.modules or ("optimizer" in keep and name in self._registry.optimizers):
                load_state(name, attribute, value, self._registry.sharding_module())
                taken.append(name)
        if "optimizer" in keep and not set(taken) & set(self._registry.optimizers):
            raise ConfigError(f"continue_keep=optimizer: {path} has no optimiser state; use a {LAST}")
        for name, schedule in self._solver.schedules.items():
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
