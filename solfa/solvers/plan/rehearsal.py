"""A rehearsal of a run: its first batch as the network sees it, a loss to compare with, and some updates on that batch.

Whoever is going to train for days wants to know today whether sounds, captions and scales are what they should be, and
whether the network can learn one batch by heart. If it cannot, it will not learn a dataset.
"""

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solfa.environment.memory import peak_memory
from solfa.errors import ConfigError
from solfa.solvers.plan.expected_loss import ExpectedLoss

if TYPE_CHECKING:
    from solfa.solvers.standard import StandardSolver

WARM_UP = 2
"""The first updates allocate memory, so they do not count for the speed."""
LEARNED = 0.05
"""A loss that falls by this share within the rehearsal has been learned from."""


@dataclass(frozen=True)
class SeenRow:
    """A row of the first batch."""

    id: str
    array: NDArray[Any]
    """As it is stored, `[T, W]`, without padding."""
    seen: NDArray[Any]
    """As the network sees it."""
    conditions: dict[str, str]
    """What the network is told about it, in its own tokens."""


@dataclass(frozen=True)
class Rehearsal:
    """What was found out."""

    rows: tuple[SeenRow, ...]
    metric: str
    untrained: float | None
    """The loss of the first batch before anything is loaded; None if an adapter's base is loaded at once."""
    start: float | None
    """The loss with the weights of `continue_from`; None without any."""
    expected: tuple[ExpectedLoss, ...]
    losses: tuple[float, ...]
    """The loss of each update on the first batch."""
    seconds_per_update: float
    num_updates: int
    """How many updates the run would take."""
    peak_bytes: int

    @property
    def seconds(self) -> float:
        """How long all updates would take."""
        return self.seconds_per_update * self.num_updates

    @property
    def verdict(self) -> str:
        """Say whether the network learns one batch."""
        return learned(self.losses)


def rehearse(
    solver: "StandardSolver[Any]", num_updates: int, *, batches_per_update: int, total_updates: int
) -> Rehearsal:
    """Run a solver that has not run yet on its first batch again and again; its weights are of no use afterwards."""
    with solver.first_batch() as batch:
        rows = _rows(solver, batch)
        has_base = solver.cfg.continue_from is not None
        untrained = _loss(solver, batch) if solver.cfg.adapter is None else None
        solver.restore()
        start = _loss(solver, batch) if has_base else None
        losses, seconds = _learn(solver, batch, num_updates)
    return Rehearsal(
        rows=rows,
        metric=solver.best_metric() or "loss",
        untrained=untrained,
        start=start,
        expected=tuple(solver.expected_losses()),
        losses=tuple(losses),
        seconds_per_update=batches_per_update * statistics.median(seconds[WARM_UP:] or seconds),
        num_updates=total_updates,
        peak_bytes=peak_memory(),
    )


def learned(losses: tuple[float, ...]) -> str:
    """Say in a sentence what became of the loss of one batch, from its first tenth to its last."""
    tenth = max(1, len(losses) // 10)
    first, last = float(np.mean(losses[:tenth])), float(np.mean(losses[-tenth:]))
    told = f"the loss of one batch went from {first:.4g} to {last:.4g} in {len(losses)} updates"
    if last < first - LEARNED * abs(first):
        return f"it learns: {told}"
    if last > first + LEARNED * abs(first):
        return f"it does not learn: {told}; lower optim.optimizer.lr"
    return f"it hardly learns: {told}; raise optim.optimizer.lr, or try more updates"


def _rows(solver: "StandardSolver[Any]", batch: Any) -> tuple[SeenRow, ...]:
    seen = solver.model_input(batch).detach().cpu().numpy()
    stored = batch.arrays.cpu().numpy()
    told = solver.conditions_as_read(batch)
    rows = []
    for index, (row, column, count) in enumerate(
        zip(batch.rows.tolist(), batch.columns.tolist(), batch.num_frames.tolist(), strict=True)
    ):
        span = slice(column, column + count)
        conditions = told[index] if index < len(told) else {}
        rows.append(SeenRow(batch.ids[index], stored[row, span], seen[row, span], conditions))
    return tuple(rows)


def _loss(solver: "StandardSolver[Any]", batch: Any) -> float:
    with solver.judging():
        return _value(solver, solver.run_step(0, batch, {}))


def _learn(solver: "StandardSolver[Any]", batch: Any, num_updates: int) -> tuple[list[float], list[float]]:
    losses, seconds = [], []
    with solver.practising():
        for index in range(num_updates):
            solver.stop_if_asked()
            begun = time.perf_counter()
            losses.append(_value(solver, solver.run_step(index, batch, {})))
            seconds.append(time.perf_counter() - begun)
    return losses, seconds


def _value(solver: "StandardSolver[Any]", metrics: dict[str, Any]) -> float:
    """Read the loss of a step; in training, some tasks do not measure what they are judged by."""
    for name in ("loss", solver.best_metric()):
        if name in metrics:
            return float(metrics[name])
    raise ConfigError(f"preflight: the solver {solver.cfg.solver} has no loss among {', '.join(metrics)}")
