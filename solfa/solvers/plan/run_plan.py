"""The plan of a run, to be read before it starts: where it runs, how large it is, what it takes, whether that is here.

What cannot fit is refused with the setting to change; what would take days on a CPU is a warning.
"""

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from solfa.data.sources.stage_source import OpenedSource
from solfa.environment.memory import device_memory
from solfa.environment.ranks import among_devices, read_rank
from solfa.errors import ConfigError
from solfa.solvers.config import SolverConfig, Stage
from solfa.solvers.experiment import Experiment, PlanTold
from solfa.solvers.plan.outline import MemoryNeeds, Outline, memory_needs
from solfa.spelling import count, duration, plural, short, size

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger(__name__)

SLOW_SECONDS = 2 * 86400.0
"""A run that takes longer on a CPU gets a warning."""
Facts = list[tuple[str, str]]
"""Names and values, to show in two columns."""


@dataclass(frozen=True)
class RunPlan:
    """What is known about a run before its first update."""

    cfg: SolverConfig
    signature: str
    outline: Outline
    device: str
    device_name: str
    num_processes: int
    num_here: int
    """How many of the processes share this machine's memory, if they run on its CPU."""
    capacity: int
    """Bytes of memory that there are for them."""
    speed: float
    """Floating point operations per second of a process; 0 if not measured."""
    clips: Mapping[Stage, tuple[int, float]]
    """The number of clips of each stage, and their seconds."""

    @property
    def rows(self) -> int:
        """How many rows of a batch a process gets."""
        dataset = self.cfg.dataset
        return 0 if dataset is None else -(-(dataset.train.batch_size or dataset.batch_size) // self.num_processes)

    @property
    def needs(self) -> MemoryNeeds:
        """The memory of all processes that share it."""
        cfg = self.cfg
        one = memory_needs(
            self.outline, cfg.optim, cfg.precision, self.rows, self.num_processes, is_sharded=cfg.strategy == "fsdp"
        )
        return MemoryNeeds(*(part * self.num_here for part in one))

    @property
    def seconds(self) -> float:
        """The time of all updates at the speed of large matrix products, which no network reaches; 0 if unknown."""
        each = self.rows * self.cfg.optim.accumulate * self.outline.row_operations
        return each * self.cfg.optim.total_updates / self.speed if self.speed else 0.0

    def facts(self) -> Facts:
        """Describe the run."""
        optim = self.cfg.optim
        total, trained = self.outline.parameters, self.outline.trained
        share = "all trained" if trained == total else f"{count(trained)} of them trained"
        updates = f"{plural(optim.epochs, 'epoch')} of {plural(optim.updates_per_epoch, 'update')}"
        facts = [
            ("solver", f"{self.cfg.solver}, experiment {self.signature}"),
            ("device", f"{self._where()}, precision {self.cfg.precision}"),
            ("parameters", f"{count(total)}, {share}"),
            *self._data(),
            ("updates", f"{updates}{self._batch()}"),
            ("memory", self._memory()),
        ]
        if self.seconds:
            facts.append(("time", f"at least {duration(self.seconds)} for the updates; measured after the first ones"))
        return facts

    def refuse(self) -> None:
        """Refuse what cannot fit into memory."""
        needs, there = self.needs, f"{self._place()} has {size(self.capacity)}"
        if needs.lasting > self.capacity:
            raise ConfigError(
                f"model: {self._lasting()} take {size(needs.lasting)}, but {there}; {self.outline.smaller}"
            )
        if needs.lasting + needs.activations > self.capacity:
            raise ConfigError(
                f"dataset.batch_size: an update keeps at least {size(needs.activations)} for its backward pass beside "
                f"{size(needs.lasting)} of {self._lasting()}, but {there}; {self._smaller_batch()}, or "
                f"{self.outline.smaller}"
            )

    def warnings(self) -> list[str]:
        """Say what will go slowly."""
        if self.device != "cpu" or self.seconds < SLOW_SECONDS:
            return []
        return [
            f"on this CPU the {count(self.cfg.optim.total_updates)} updates take at least {duration(self.seconds)}; "
            f"{self.outline.smaller}, set optim.epochs lower, or use a machine with a GPU"
        ]

    def _where(self) -> str:
        name = self.device_name or self.device
        return name if self.num_processes == 1 else f"{self.num_processes} processes on {name}"

    def _place(self) -> str:
        return "this machine" if self.device == "cpu" else f"the {self.device} device"

    def _data(self) -> Facts:
        return [
            (stage, f"{plural(clips, 'clip')}, {duration(seconds)}") for stage, (clips, seconds) in self.clips.items()
        ]

    def _batch(self) -> str:
        dataset = self.cfg.dataset
        if dataset is None:
            return ""
        rows = (dataset.train.batch_size or dataset.batch_size) * self.cfg.optim.accumulate
        seconds = dataset.train.segment_seconds or dataset.segment_seconds
        return f", each {plural(rows, 'row')}" + (f" of {short(seconds)} s" if seconds else "")

    def _lasting(self) -> str:
        averaged = self.cfg.optim.ema is not None
        return "weights, gradients, optimiser and averages" if averaged else "weights, gradients and optimiser"

    def _memory(self) -> str:
        needs = self.needs
        named = [("weights", needs.weights), ("gradients", needs.gradients)]
        named += [(self.cfg.optim.optimizer.kind, needs.optimizer), ("averages", needs.averages)]
        parts = ", ".join(f"{name} {size(part)}" for name, part in named if part)
        activations = f"at least {size(needs.activations)} of activations" if needs.activations else "activations"
        return f"{size(needs.lasting)} ({parts}) plus {activations}; {self._place()} has {size(self.capacity)}"

    def _smaller_batch(self) -> str:
        """Name the largest batch that fits, and how to keep what an update sees."""
        dataset, needs = self.cfg.dataset, self.needs
        assert dataset is not None, "without rows there are no activations to count"
        batch = dataset.train.batch_size or dataset.batch_size
        fitting = batch * (self.capacity - needs.lasting) / needs.activations
        parts = next((parts for parts in (2**power for power in range(1, 20)) if batch / parts <= fitting), 0)
        if parts == 0 or parts > batch:
            return f"set dataset.batch_size={self.num_processes} and dataset.segment_seconds lower"
        accumulate = self.cfg.optim.accumulate * parts
        return f"set dataset.batch_size={batch // parts} optim.accumulate={accumulate}, which learns the same"


def tell_plan(
    cfg: SolverConfig, experiment: Experiment, fabric: "Fabric", outline: Outline, sources: Mapping[Stage, OpenedSource]
) -> None:
    """Say what a run takes, before it is allocated, and refuse what cannot fit; a dry run ends here."""
    plan = make_plan(cfg, experiment.signature, fabric, outline, sources)
    is_first = fabric.global_rank == 0
    if is_first:
        experiment.watcher.planned(plan.facts())
    plan.refuse()
    for sentence in plan.warnings() if is_first else ():
        logger.warning("%s", sentence)
    if experiment.is_dry:
        raise PlanTold


def make_plan(
    cfg: SolverConfig, signature: str, fabric: "Fabric", outline: Outline, sources: Mapping[Stage, OpenedSource]
) -> RunPlan:
    """Gather what is known: settings, machine, networks, data."""
    device = fabric.device.type
    rank = read_rank(os.environ)
    if device == "cuda":
        rank = among_devices(rank, torch.cuda.device_count())
    return RunPlan(
        cfg=cfg,
        signature=signature,
        outline=outline,
        device=device,
        device_name=_device_name(device, rank.local_rank),
        num_processes=fabric.world_size,
        num_here=rank.local_world_size if device == "cpu" else 1,
        capacity=device_memory(device, rank.local_rank),
        speed=measure_speed() if device == "cpu" and outline.row_operations else 0.0,
        clips={
            stage: (len(source), float(source.num_frames.sum()) / source.array.frame_rate)
            for stage, source in sources.items()
        },
    )


def measure_speed(side: int = 384, repeats: int = 20) -> float:
    """Measure the floating point operations per second of matrix products on the CPU; takes a few milliseconds.

    The fastest product on one thread counts, times the threads: the others shared the cores with somebody.
    """
    threads = torch.get_num_threads()
    left, seconds = torch.ones(side, side), []
    torch.set_num_threads(1)
    try:
        for _ in range(repeats):
            started = time.perf_counter()
            left @ left
            seconds.append(time.perf_counter() - started)
    finally:
        torch.set_num_threads(threads)
    return threads * 2 * side**3 / max(1e-9, min(seconds))


def _device_name(device: str, index: int) -> str:
    if device == "cuda":
        return f"cuda ({torch.cuda.get_device_name(index)})"
    return f"cpu, {plural(torch.get_num_threads(), 'thread')}" if device == "cpu" else device
