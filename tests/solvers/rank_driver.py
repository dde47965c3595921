"""Two forked processes that meet each other through the launcher's variables; each prints what it sees as JSON.

python -m tests.solvers.rank_driver
"""

import json
import os
import socket
import sys

import torch

from solfa.config import parse_config
from solfa.solvers.averages import Averages
from solfa.solvers.devices import gather_objects, start_fabric
from solfa.solvers.stopping import agree
from tests.solvers.toy import ToyConfig, toy_values

WORLD_SIZE = 2


def report(rank: int, port: int) -> None:
    values = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": WORLD_SIZE, "LOCAL_WORLD_SIZE": WORLD_SIZE}
    os.environ.update({name: str(value) for name, value in values.items()})
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
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
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    children = []
    for rank in range(WORLD_SIZE):
        child = os.fork()
        if not child:
            code = 1
            try:
                report(rank, port)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitpid(child, 0)[1] for child in children]
    if any(codes):
        sys.exit(f"a process failed: {codes}")


if __name__ == "__main__":
    main()
