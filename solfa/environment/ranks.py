"""Which of several cooperating processes this one is, according to its launcher (torchrun, Lightning, Slurm) if any."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from solfa.errors import ConfigError


class Rank(NamedTuple):
    """The number of this process among all, and on its machine."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1


_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
)


def read_rank(environment: Mapping[str, str]) -> Rank:
    """Read the rank from a launcher's variables; without them, this process is alone.

    >>> from solfa.environment import read_rank
    >>> read_rank({"RANK": "3", "WORLD_SIZE": "8"})
    Rank(rank=3, world_size=8, local_rank=0, local_world_size=1)
    """
    for names in _LAUNCHERS:
        if names[0] in environment and names[1] in environment:
            values = [_number(environment, name, default) for name, default in zip(names, Rank(), strict=True)]
            rank = Rank(*values)
            if not 0 <= rank.rank < rank.world_size:
                raise ConfigError(f"{names[0]}={rank.rank}: expected 0 to {rank.world_size - 1} ({names[1]})")
            return rank
    return Rank()


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, str(default))
    if not text.isdigit():
        raise ConfigError(f"{name}: expected a number, found {text!r}; unset it or use a launcher")
    return int(text)


def usable_cores() -> int:
    """Count the cores this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
