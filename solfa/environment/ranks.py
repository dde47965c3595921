"""Which of several cooperating processes this one is, according to its launcher (torchrun, Lightning, Slurm) if any."""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from solfa.errors import ConfigError


class Rank(NamedTuple):
    """The number of this process among all, and on its machine."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1


class Turn(NamedTuple):
    """The number of this process among all that share one work and take parts of it as they come.

    Unlike a rank it promises nothing about the others: the tasks of a Slurm array may start on different days.
    """

    number: int = 0
    total: int = 1


_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_SLURM = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")


def read_rank(environment: Mapping[str, str]) -> Rank:
    """Read the rank from a launcher's variables; without them, this process is alone.

    The script of a Slurm job is alone, too, however many tasks the job has: only `srun` starts them.

    >>> from solfa.environment import read_rank
    >>> read_rank({"RANK": "3", "WORLD_SIZE": "8"})
    Rank(rank=3, world_size=8, local_rank=0, local_world_size=1)
    """
    for names in (_TORCHRUN, _SLURM):
        if names[0] in environment and names[1] in environment:
            values = [_number(environment, name, default) for name, default in zip(names, Rank(), strict=False)]
            rank = Rank(*values)
            if not 0 <= rank.rank < rank.world_size:
                raise ConfigError(f"{names[0]}={rank.rank}: expected 0 to {rank.world_size - 1} ({names[1]})")
            return rank if names is _TORCHRUN else rank._replace(local_world_size=_tasks_here(environment))
    return Rank()


def read_turn(environment: Mapping[str, str]) -> Turn:
    """Number this process among the ranks of its launcher and, if it is in a Slurm array, of all the array's tasks."""
    rank = read_rank(environment)
    index, count = _array_task(environment)
    return Turn(index * rank.world_size + rank.rank, count * rank.world_size)


def among_devices(rank: Rank, num_devices: int) -> Rank:
    """Number a process among those that see the same devices.

    With one device for several processes each has its own, as with `srun --gpus-per-task=1`: it is the first for all.
    """
    return rank._replace(local_rank=0, local_world_size=1) if num_devices == 1 else rank


def usable_cores(environment: Mapping[str, str] = os.environ) -> int:
    """Count the cores this process may use, which in a container or a job are fewer than the machine has.

    Clusters that do not bind tasks to cores let every task see all; what Slurm gave to this one counts all the same.

    >>> from solfa.environment import usable_cores
    >>> usable_cores({"SLURM_CPUS_ON_NODE": "1"})
    1
    """
    if hasattr(os, "sched_getaffinity"):
        bound = len(os.sched_getaffinity(0))
    else:
        bound = os.cpu_count() or 1
    return min(bound, _slurm_cores(environment) or bound)


def own_cores(environment: Mapping[str, str] = os.environ) -> int:
    """Count the cores this process need not share with the other ranks on its machine.

    Slurm's tasks have theirs already; torchrun's processes divide what there is.
    """
    is_torchrun = _TORCHRUN[0] in environment and _TORCHRUN[1] in environment
    sharing = read_rank(environment).local_world_size if is_torchrun else 1
    return max(1, usable_cores(environment) // max(1, sharing))


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, str(default))
    if not text.isdigit():
        raise ConfigError(f"{name}: expected a number, found {text!r}; unset it or use a launcher")
    return int(text)


def _tasks_here(environment: Mapping[str, str]) -> int:
    """Count the tasks of this step on this node; `SLURM_NTASKS_PER_NODE` is only set for those who ask for it."""
    counts = tasks_per_node(environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
    node = _number(environment, "SLURM_NODEID", 0)
    return counts[node] if node < len(counts) else _number(environment, "SLURM_NTASKS_PER_NODE", 1)


def tasks_per_node(text: str) -> list[int]:
    """Read Slurm's short form of one number per node: `2(x3),1` is 2, 2, 2, 1."""
    counts: list[int] = []
    for part in text.split(",") if text else ():
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if found is None:
            raise ConfigError(f"SLURM_STEP_TASKS_PER_NODE: expected numbers such as 2(x3),1, found {text!r}")
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


def _slurm_cores(environment: Mapping[str, str]) -> int:
    """Count the cores that Slurm gave to this task, or to the script of a job; 0 if it does not say."""
    on_node = _number(environment, "SLURM_CPUS_ON_NODE", 0)
    if "SLURM_STEP_NUM_TASKS" not in environment:
        return on_node
    asked = _number(environment, "SLURM_CPUS_PER_TASK", 0)
    return asked or (max(1, on_node // max(1, _tasks_here(environment))) if on_node else 0)


def _array_task(environment: Mapping[str, str]) -> tuple[int, int]:
    """Number this task of a job array among all; those of a list with gaps (`--array=1,5,7`) have gaps here, too."""
    if "SLURM_ARRAY_TASK_ID" not in environment:
        return 0, 1
    task = _number(environment, "SLURM_ARRAY_TASK_ID", 0)
    first = _number(environment, "SLURM_ARRAY_TASK_MIN", task)
    last = _number(environment, "SLURM_ARRAY_TASK_MAX", task)
    step = max(1, _number(environment, "SLURM_ARRAY_TASK_STEP", 1))
    if not first <= task <= last:
        raise ConfigError(f"SLURM_ARRAY_TASK_ID={task}: expected {first} to {last} (SLURM_ARRAY_TASK_MIN and _MAX)")
    return (task - first) // step, (last - first) // step + 1
