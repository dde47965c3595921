"""The optimiser of a run: which rule, which parameters, which learning rate schedule, how long an epoch."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator
from torch import nn
from torch.utils._foreach_utils import _get_fused_kernels_supported_devices

from solfa.config import Config
from solfa.solvers.optim.ema import EmaConfig
from solfa.solvers.optim.parameter_groups import NO_DECAY, ParameterGroup, Parameters, Rules, group_parameters
from solfa.solvers.optim.schedules import AnySchedule, Constant, Schedule, warm_up_fault

ParamGroups = list[dict[str, Any]]
Beta = Annotated[float, Field(ge=0.0, lt=1.0)]


class _Rule(Config):
    """Settings that all optimisers share."""

    lr: float = Field(default=1e-4, gt=0.0)
    weight_decay: float = Field(default=0.0, ge=0.0)
    fused: bool = True
    """Use one fused kernel for all parameters if torch has one for the device (five times faster on a CPU)."""

    @property
    def num_states(self) -> int:
        """How many numbers are remembered for each parameter."""
        return 2


class AdamW(_Rule):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2017).

    >>> import torch
    >>> from solfa.solvers import OptimConfig, build_optimizer
    >>> from solfa.solvers.optim import AdamW
    >>> type(build_optimizer(torch.nn.Linear(2, 2), OptimConfig(epochs=1, optimizer=AdamW(lr=1e-3)))).__name__
    'AdamW'
    """

    kind: Literal["adamw"] = "adamw"
    betas: tuple[Beta, Beta] = (0.9, 0.95)
    eps: float = Field(default=1e-8, gt=0.0)
    weight_decay: float = Field(default=0.1, ge=0.0)

    def build(self, groups: ParamGroups) -> torch.optim.Optimizer:
        fused = self.fused and is_fusible(_tensors(groups))
        return torch.optim.AdamW(groups, self.lr, self.betas, self.eps, self.weight_decay, fused=fused)


class Adam(_Rule):
    """Adam with weight decay added to the gradient (Kingma and Ba 2014).

    >>> import torch
    >>> from solfa.solvers import OptimConfig, build_optimizer
    >>> from solfa.solvers.optim import Adam
    >>> type(build_optimizer(torch.nn.Linear(2, 2), OptimConfig(epochs=1, optimizer=Adam(lr=1e-3)))).__name__
    'Adam'
    """

    kind: Literal["adam"] = "adam"
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: float = Field(default=1e-8, gt=0.0)

    def build(self, groups: ParamGroups) -> torch.optim.Optimizer:
        fused = self.fused and is_fusible(_tensors(groups))
        return torch.optim.Adam(groups, self.lr, self.betas, self.eps, self.weight_decay, fused=fused)


class SGD(_Rule):
    """Gradient descent with momentum.

    >>> import torch
    >>> from solfa.solvers import OptimConfig, build_optimizer
    >>> from solfa.solvers.optim import SGD
    >>> optimizer = build_optimizer(torch.nn.Linear(2, 2), OptimConfig(epochs=1, optimizer=SGD(lr=0.1, momentum=0.0)))
    >>> type(optimizer).__name__, optimizer.defaults["momentum"]
    ('SGD', 0.0)
    """

    kind: Literal["sgd"] = "sgd"
    momentum: float = Field(default=0.9, ge=0.0, lt=1.0)
    nesterov: bool = False

    @property
    def num_states(self) -> int:
        """How many numbers are remembered for each parameter."""
        return 1 if self.momentum else 0

    def build(self, groups: ParamGroups) -> torch.optim.Optimizer:
        fused = self.fused and is_fusible(_tensors(groups))
        return torch.optim.SGD(
            groups,
            self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            nesterov=self.nesterov,
            fused=fused,
        )


AnyOptimizer = Annotated[AdamW | Adam | SGD, Field(discriminator="kind")]


class OptimConfig(Config):
    """How parameters are updated, and how often."""

    optimizer: AnyOptimizer = AdamW()
    schedule: AnySchedule = Constant()
    clip_norm: float | None = Field(default=1.0, gt=0.0)
    """The largest norm of the whole gradient; None does not clip."""
    accumulate: int = Field(default=1, ge=1)
    """Batches per update."""
    updates_per_epoch: int = Field(default=2000, ge=1)
    epochs: int = Field(ge=1)
    ema: EmaConfig | None = None
    groups: tuple[ParameterGroup, ...] = ()
    no_decay: tuple[str, ...] = NO_DECAY

    @model_validator(mode="after")
    def _warm_up_ends(self) -> "OptimConfig":
        if fault := warm_up_fault(self.schedule, self.total_updates):
            raise ValueError(fault)
        return self

    @property
    def total_updates(self) -> int:
        """The number of updates in the whole run."""
        return self.epochs * self.updates_per_epoch


def build_optimizer(params: Parameters, config: OptimConfig) -> torch.optim.Optimizer:
    """Build the optimiser for all parameters that require a gradient, in groups: norms and biases do not decay.

    `params` is a module, several by name, named parameters, or plain ones (then only attributes of the tensors set
    them apart). Each group has a `name` and the names of its parameters.

    >>> import torch
    >>> from solfa.solvers import OptimConfig, build_optimizer
    >>> from solfa.solvers.optim import AdamW, ParameterGroup
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8))
    >>> slow = ParameterGroup(pattern="0.weight", lr_scale=0.1)
    >>> config = OptimConfig(epochs=10, optimizer=AdamW(lr=1e-3, weight_decay=0.1), groups=(slow,))
    >>> for group in build_optimizer(model, config).param_groups:
    ...     print(group["param_names"], group["lr"], group["weight_decay"])
    ['0.weight'] 0.0001 0.1
    ['0.bias', '1.weight', '1.bias'] 0.001 0.0
    """
    rule = config.optimizer
    rules = Rules(lr=rule.lr, weight_decay=rule.weight_decay, groups=config.groups, no_decay=config.no_decay)
    groups: ParamGroups = [
        {"params": list(group.parameters), "lr": group.lr, "weight_decay": group.weight_decay, "name": group.name}
        for group in group_parameters(params, rules)
    ]
    return rule.build(groups)


def build_schedule(optimizer: torch.optim.Optimizer, config: OptimConfig, total_updates: int | None = None) -> Schedule:
    """Build the schedule for an optimiser that still has its configured learning rates; restore it afterwards.

    >>> import torch
    >>> from solfa.solvers.optim import Cosine, OptimConfig, build_optimizer, build_schedule
    >>> config = OptimConfig(epochs=1, updates_per_epoch=100, schedule=Cosine(warmup_updates=10))
    >>> schedule = build_schedule(build_optimizer(torch.nn.Linear(2, 2), config), config)
    >>> schedule.ratio  # of the learning rate: a tenth, before the first of ten updates
    0.1
    """
    return Schedule(optimizer, config.schedule, config.total_updates if total_updates is None else total_updates)


def is_fusible(parameters: Iterable[nn.Parameter]) -> bool:
    """Say whether torch has a fused kernel for these parameters: real numbers on a supported device."""
    devices = set(_get_fused_kernels_supported_devices())
    return all(parameter.is_floating_point() and parameter.device.type in devices for parameter in parameters)


def _tensors(groups: ParamGroups) -> Iterable[nn.Parameter]:
    return (parameter for group in groups for _, parameter in group["params"])
