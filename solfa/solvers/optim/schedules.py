"""Learning rate schedules: each is a pure function from the number of updates made to a ratio.

The ratio multiplies the learning rate of every parameter group. `ratio(0)` applies to the first update, so a warm-up
of `w` updates starts at 1/w, not at 0, and reaches 1 with its last update.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from solfa.config import Config, nearest
from solfa.errors import ConfigError

Ratio = Annotated[float, Field(ge=0.0, le=1.0)]


def warm_up(update: int, warmup_updates: int) -> float:
    """Rise in equal steps to 1."""
    return min(1.0, (update + 1) / warmup_updates) if warmup_updates else 1.0


def progress(update: int, start: int, stop: int) -> float:
    """Go from 0 at `start` to 1 at `stop`, and stay there."""
    return min(1.0, max(0.0, (update - start) / (stop - start)))


class Constant(Config):
    """A constant learning rate after the warm-up.

    >>> from solfa.solvers.optim import Constant
    >>> [Constant(warmup_updates=4).ratio(update, total_updates=100) for update in (0, 3, 99)]
    [0.25, 1.0, 1.0]
    """

    kind: Literal["constant"] = "constant"
    warmup_updates: int = Field(default=0, ge=0)

    def ratio(self, update: int, total_updates: int) -> float:
        return warm_up(update, self.warmup_updates)


class InverseSqrt(Config):
    """Decay with the inverse square root of the number of updates (Vaswani et al. 2017, section 5.3).

    >>> from solfa.solvers.optim import InverseSqrt
    >>> [InverseSqrt(warmup_updates=100).ratio(update, total_updates=1000) for update in (0, 99, 399)]
    [0.01, 1.0, 0.5]
    """

    kind: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup_updates: int = Field(default=4000, ge=1)

    def ratio(self, update: int, total_updates: int) -> float:
        return min(warm_up(update, self.warmup_updates), math.sqrt(self.warmup_updates / (update + 1)))


class _Decaying(Config):
    """A schedule that falls from 1 after the warm-up to `min_ratio` at the end."""

    warmup_updates: int = Field(default=0, ge=0)
    min_ratio: Ratio = 0.0
    updates: int | None = Field(default=None, ge=1)
    """The update at which `min_ratio` is reached; None for the end of the run."""

    def fallen(self, update: int, total_updates: int) -> float:
        """Return how far along the way from 1 to `min_ratio` an update is, from 0 to 1."""
        stop = total_updates if self.updates is None else self.updates
        assert self.warmup_updates < stop, "warm_up_fault has refused it"
        return progress(update, self.warmup_updates, stop)


class Cosine(_Decaying):
    """Half a cosine from 1 down to `min_ratio` (Loshchilov and Hutter 2016, without restarts).

    >>> from solfa.solvers.optim import Cosine
    >>> cosine = Cosine(warmup_updates=10, min_ratio=0.1)
    >>> [round(cosine.ratio(update, total_updates=110), 2) for update in (0, 9, 10, 60, 110)]
    [0.1, 1.0, 1.0, 0.55, 0.1]
    """

    kind: Literal["cosine"] = "cosine"

    def ratio(self, update: int, total_updates: int) -> float:
        height = 0.5 * (1.0 + math.cos(math.pi * self.fallen(update, total_updates)))
        return warm_up(update, self.warmup_updates) * (self.min_ratio + (1.0 - self.min_ratio) * height)


class Linear(_Decaying):
    """A straight line from 1 down to `min_ratio`.

    >>> from solfa.solvers.optim import Linear
    >>> [Linear(min_ratio=0.5).ratio(update, total_updates=100) for update in (0, 50, 100)]
    [1.0, 0.75, 0.5]
    """

    kind: Literal["linear"] = "linear"

    def ratio(self, update: int, total_updates: int) -> float:
        height = 1.0 - self.fallen(update, total_updates)
        return warm_up(update, self.warmup_updates) * (self.min_ratio + (1.0 - self.min_ratio) * height)


class Plateau(Config):
    """Multiply by `factor` whenever a metric has not improved for more than `patience` epochs in a row.

    >>> import torch
    >>> from solfa.solvers.optim import Plateau, Schedule
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> schedule = Schedule(optimizer, Plateau(patience=0), total_updates=100)
    >>> for loss in (2.0, 1.0, 1.5):
    ...     schedule.observe({"valid": {"loss": loss}})
    >>> schedule.lr
    0.5
    """

    kind: Literal["plateau"] = "plateau"
    metric: str = Field(default="valid.loss", pattern=r"^(train|valid|evaluate)\.[^.].*$")
    """Stage and metric."""
    better: Literal["lower", "higher"] = "lower"
    factor: float = Field(default=0.5, gt=0.0, lt=1.0)
    patience: int = Field(default=5, ge=0)
    cooldown: int = Field(default=0, ge=0)
    """Epochs to wait after a reduction before counting again."""
    min_ratio: Ratio = 0.0
    warmup_updates: int = Field(default=0, ge=0)

    def ratio(self, update: int, total_updates: int) -> float:
        return warm_up(update, self.warmup_updates)

    def after(self, state: "PlateauState", value: float) -> "PlateauState":
        """Judge one more epoch; NaN is no improvement."""
        improved = state.best is None or (value < state.best if self.better == "lower" else value > state.best)
        improved = improved and not math.isnan(value)
        best = value if improved else state.best
        bad_epochs = 0 if improved or state.cooldown_left else state.bad_epochs + 1
        cooldown_left = max(0, state.cooldown_left - 1)
        if bad_epochs <= self.patience:
            return PlateauState(best=best, bad_epochs=bad_epochs, cooldown_left=cooldown_left, scale=state.scale)
        scale = max(self.min_ratio, state.scale * self.factor)
        return PlateauState(best=best, bad_epochs=0, cooldown_left=self.cooldown, scale=scale)


class PlateauState(Config):
    """What a plateau schedule remembers between epochs."""

    best: float | None = None
    bad_epochs: int = 0
    cooldown_left: int = 0
    scale: float = 1.0


AnySchedule = Annotated[Constant | Cosine | Linear | InverseSqrt | Plateau, Field(discriminator="kind")]


def warm_up_fault(kind: AnySchedule, total_updates: int) -> str:
    """Say why a warm-up does not fit into a run; empty if it does."""
    warmup, stop = kind.warmup_updates, total_updates
    if isinstance(kind, _Decaying):
        # It has to fall, too.
        stop = (total_updates if kind.updates is None else kind.updates) - 1
    if warmup <= stop:
        return ""
    return (
        f"optim.schedule.warmup_updates: expected at most {stop}, found {warmup}: the warm-up would not end within the "
        f"run, which has {total_updates} updates; lower it, or raise optim.epochs or optim.updates_per_epoch"
    )


class Schedule:
    """Sets the learning rates of an optimiser's groups before each update; its state is a few numbers.

    The base rates are the optimiser's current ones: build this before restoring anything, and restore the optimiser
    first.

    >>> import torch
    >>> from solfa.solvers.optim import Linear, Schedule
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> schedule = Schedule(optimizer, Linear(), total_updates=4)
    >>> rates = [schedule.lr]
    >>> for update in range(4):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates.append(schedule.lr)
    >>> rates
    [1.0, 0.75, 0.5, 0.25, 0.0]
    """

    def __init__(self, optimizer: torch.optim.Optimizer, kind: AnySchedule, total_updates: int) -> None:
        self.updates = 0
        self._optimizer, self._kind, self._total_updates = optimizer, kind, total_updates
        self._base = [float(group["lr"]) for group in optimizer.param_groups]
        self._plateau = PlateauState()
        self.apply()

    @property
    def ratio(self) -> float:
        """The factor on every group's learning rate in the next update."""
        return self._kind.ratio(self.updates, self._total_updates) * self._plateau.scale

    @property
    def lr(self) -> float:
        """The learning rate of the first group."""
        return self._base[0] * self.ratio

    def step(self) -> None:
        """Advance after an update of the optimiser."""
        self.updates += 1
        self.apply()

    def observe(self, metrics: Mapping[str, Mapping[str, float]]) -> None:
        """Take note of an epoch's metrics by stage; only a plateau uses them, if its stage was run."""
        if not isinstance(self._kind, Plateau):
            return
        stage, name = self._kind.metric.split(".", 1)
        if stage not in metrics:
            return
        if name not in metrics[stage]:
            raise ConfigError(
                f"optim.schedule.metric: the stage {stage} has no metric {name!r}, only "
                f"{', '.join(sorted(metrics[stage])) or 'none at all'}{nearest(name, metrics[stage])}"
            )
        self._plateau = self._kind.after(self._plateau, float(metrics[stage][name]))
        self.apply()

    def state_dict(self) -> dict[str, Any]:
        """Return plain numbers."""
        return {"updates": self.updates, "plateau": self._plateau.model_dump()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; the base rates and the kind remain those of this run's config."""
        self.updates = int(state["updates"])
        self._plateau = PlateauState.model_validate(state["plateau"])
        self.apply()

    def apply(self) -> None:
        """Set the learning rates again, after something else (a restored optimiser) has set them."""
        groups = self._optimizer.param_groups
        assert len(groups) == len(self._base), "the optimiser's groups changed after its schedule was built"
        for group, base in zip(groups, self._base, strict=True):
            group["lr"] = base * self.ratio
