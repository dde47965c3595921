"""Two forked processes that meet each other through the launcher's variables; each prints what it sees as JSON.

python -m tests.solvers.rank_driver
"""

import json
import os
import sys

import lightning_fabric  # noqa: F401  (imported before forking)
import torch

from solfa.config import parse_config
from solfa.solvers.fabric.devices import gather_objects, start_fabric
from solfa.solvers.loop.agreement import agree
from solfa.solvers.loop.averages import Averages
from tests.forked import expect_success, fork_ranks, free_port, launcher_variables
from tests.solvers.toy import ToyConfig, toy_values

WORLD_SIZE = 2


def report(rank: int, port: int) -> None:
    os.environ.update(launcher_variables(rank, WORLD_SIZE, port))
    fabric = start_fabric(parse_config(ToyConfig, toy_values(), "toy"))
    averages = Averages()
    averages.add({"loss": torch.tensor(10.0 * (rank + 1)), f"only{rank}": 5.0}, weight=rank + 1)
    found = {
        "rank": fabric.global_rank,
        "world_size": fabric.world_size,
        "gathered": gather_objects(fabric, {"rank": rank, "ids": ["a"] * rank}),
        "agreed": agree(fabric, 15 * rank, 1 - rank, 0),
        "means": Averages.of(gather_objects(fabric, averages.state())).means(),
    }
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    fabric.barrier()


def main() -> None:
    torch.set_num_threads(1)
    port = free_port()
    expect_success(fork_ranks(WORLD_SIZE, lambda rank: report(rank, port)))


if __name__ == "__main__":
    main()
