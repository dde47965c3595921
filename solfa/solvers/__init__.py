"""Training: the standard solver, one file per task, and the parts a solver is composed of."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.solvers.catalogue import find_solver
    from solfa.solvers.config import CheckpointConfig, SolverConfig, StageConfig
    from solfa.solvers.evidence.comparison import Evidence
    from solfa.solvers.experiment import Experiment
    from solfa.solvers.fabric.wrappers import unwrapped
    from solfa.solvers.loop.averages import Metrics
    from solfa.solvers.optim.optimizer import OptimConfig, build_optimizer
    from solfa.solvers.plan.expected_loss import ExpectedLoss
    from solfa.solvers.plan.outline import Outline
    from solfa.solvers.standard import StandardSolver
    from solfa.solvers.tasks.compression import CompressionSolver
    from solfa.solvers.tasks.flow import FlowSolver
    from solfa.solvers.tasks.lm import LMSolver
    from solfa.solvers.tasks.mot import MoTSolver
    from solfa.solvers.tasks.sashimi import SashimiSolver
    from solfa.solvers.watchers.protocol import LoggingConfig, WandbConfig, Watcher, Watchers
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.solvers.catalogue": ["find_solver"],
            "solfa.solvers.config": ["CheckpointConfig", "SolverConfig", "StageConfig"],
            "solfa.solvers.evidence.comparison": ["Evidence"],
            "solfa.solvers.experiment": ["Experiment"],
            "solfa.solvers.fabric.wrappers": ["unwrapped"],
            "solfa.solvers.loop.averages": ["Metrics"],
            "solfa.solvers.optim.optimizer": ["OptimConfig", "build_optimizer"],
            "solfa.solvers.plan.expected_loss": ["ExpectedLoss"],
            "solfa.solvers.plan.outline": ["Outline"],
            "solfa.solvers.standard": ["StandardSolver"],
            "solfa.solvers.tasks.compression": ["CompressionSolver"],
            "solfa.solvers.tasks.flow": ["FlowSolver"],
            "solfa.solvers.tasks.lm": ["LMSolver"],
            "solfa.solvers.tasks.mot": ["MoTSolver"],
            "solfa.solvers.tasks.sashimi": ["SashimiSolver"],
            "solfa.solvers.watchers.protocol": ["LoggingConfig", "WandbConfig", "Watcher", "Watchers"],
        },
    )

__all__ = [
    "CheckpointConfig",
    "CompressionSolver",
    "Evidence",
    "ExpectedLoss",
    "Experiment",
    "FlowSolver",
    "LMSolver",
    "LoggingConfig",
    "Metrics",
    "MoTSolver",
    "OptimConfig",
    "Outline",
    "SashimiSolver",
    "SolverConfig",
    "StageConfig",
    "StandardSolver",
    "WandbConfig",
    "Watcher",
    "Watchers",
    "build_optimizer",
    "find_solver",
    "unwrapped",
]
