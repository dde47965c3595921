"""The machine: cores, ranks, memory, what it can do, and where a team keeps its files on it."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.environment.allocator import worker_environment
    from solfa.environment.clusters import ClusterConfig
    from solfa.environment.doctor import Finding, examine
    from solfa.environment.ranks import Rank, read_rank, usable_cores
    from solfa.environment.teams import Environment, load_environment
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.environment.allocator": ["worker_environment"],
            "solfa.environment.clusters": ["ClusterConfig"],
            "solfa.environment.doctor": ["Finding", "examine"],
            "solfa.environment.ranks": ["Rank", "read_rank", "usable_cores"],
            "solfa.environment.teams": ["Environment", "load_environment"],
        },
    )

__all__ = [
    "ClusterConfig",
    "Environment",
    "Finding",
    "Rank",
    "examine",
    "load_environment",
    "read_rank",
    "usable_cores",
    "worker_environment",
]
