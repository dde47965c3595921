"""Train the toy task in forked processes that are killed at random; run as a script, because forking wants one thread.

python -m tests.integration.train_driver FOLDER WORLD_SIZE KILLS
"""

import os
import random
import signal
import socket
import sys
import time
from pathlib import Path

import torch

from solfa.config import parse_config
from solfa.solvers.experiment import Experiment
from tests.solvers.toy import ToyConfig, ToySolver, toy_values


def train(folder: Path, rank: int, world_size: int, port: int) -> None:
    if world_size > 1:
        values = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world_size, "LOCAL_WORLD_SIZE": world_size}
        os.environ.update({name: str(value) for name, value in values.items()})
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    # Slow enough to be killed in the middle of an epoch, and saved at almost every update.
    values = toy_values(
        step_seconds=0.01, checkpoint__minutes=1e-4, batch_size=6, optim__epochs=4, optim__updates_per_epoch=20
    )
    ToySolver(parse_config(ToyConfig, values, "toy"), Experiment(folder, "toy")).run()


def start(folder: Path, world_size: int) -> list[int]:
    """Fork the processes of one attempt."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    children = []
    for rank in range(world_size):
        child = os.fork()
        if not child:
            code = 1
            try:
                train(folder, rank, world_size, port)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    return children


def main() -> None:
    folder, world_size, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    rng = random.Random(0)
    killed_running = 0
    for _ in range(kills):
        children = start(folder, world_size)
        time.sleep(rng.uniform(0.05, 0.35))
        for child in children:
            os.kill(child, signal.SIGKILL)
        killed_running += all(os.WIFSIGNALED(os.waitpid(child, 0)[1]) for child in children)
    codes = [os.waitpid(child, 0)[1] for child in start(folder, world_size)]
    if any(codes):
        sys.exit(f"the last attempt failed: {codes}")
    sys.stdout.write(f"killed {killed_running}\n")


if __name__ == "__main__":
    main()
