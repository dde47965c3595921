"""Optimisers, parameter groups, learning rate schedules, averages of weights."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.solvers.optim.ema import Ema, EmaConfig
    from solfa.solvers.optim.optimizer import SGD, Adam, AdamW, OptimConfig, build_optimizer, build_schedule
    from solfa.solvers.optim.parameter_groups import ParameterGroup
    from solfa.solvers.optim.schedules import Constant, Cosine, InverseSqrt, Linear, Plateau, Schedule
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.solvers.optim.ema": ["Ema", "EmaConfig"],
            "solfa.solvers.optim.optimizer": [
                "Adam",
                "AdamW",
                "OptimConfig",
                "SGD",
                "build_optimizer",
                "build_schedule",
            ],
            "solfa.solvers.optim.parameter_groups": ["ParameterGroup"],
            "solfa.solvers.optim.schedules": ["Constant", "Cosine", "InverseSqrt", "Linear", "Plateau", "Schedule"],
        },
    )

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Constant",
    "Cosine",
    "Ema",
    "EmaConfig",
    "InverseSqrt",
    "Linear",
    "OptimConfig",
    "ParameterGroup",
    "Plateau",
    "Schedule",
    "build_optimizer",
    "build_schedule",
]
