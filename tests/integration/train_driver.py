"""Train the toy task in forked processes that are killed at random; run as a script, because forking wants one thread.

Everything is imported once, so that a child trains at once and is not killed while it imports. Takes the runs as JSON,
`[[FOLDER, WORLD_SIZE, KILLS], ...]`, and prints for each how many kills hit a run that had saved something.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import lightning_fabric  # noqa: F401  (imported before forking)
import torch

from solfa.config import parse_config
from solfa.solvers.experiment import Experiment
from solfa.xp.layout import LAST
from tests.forked import expect_success, fork_ranks, free_port, launcher_variables
from tests.solvers.toy import ToyConfig, ToySolver, toy_values


def train(folder: Path, rank: int, world_size: int, port: int) -> None:
    if world_size > 1:
        os.environ.update(launcher_variables(rank, world_size, port))
    # Slow enough to be killed in the middle of an epoch, and saved at almost every update.
    values = toy_values(
        step_seconds=0.01, checkpoint__minutes=1e-4, batch_size=6, optim__epochs=4, optim__updates_per_epoch=20
    )
    ToySolver(parse_config(ToyConfig, values, "toy"), Experiment(folder, "toy")).run()


def start(folder: Path, world_size: int) -> list[int]:
    """Fork the processes of one attempt."""
    port = free_port()
    return fork_ranks(world_size, lambda rank: train(folder, rank, world_size, port))


def train_with_kills(folder: Path, world_size: int, kills: int) -> int:
    """Train to the end, with so many SIGKILLs on the way; count those that hit a run that had saved something.

    Some come at any moment after the start, the others once the run has gone on, however slow the machine is.
    """
    rng = random.Random(0)
    hit = 0
    for number in range(kills):
        before = saved_at(folder)
        children = start(folder, world_size)
        if number % 4:
            wait_for_progress(folder, before, children)
        time.sleep(rng.uniform(0, 0.06))
        for child in children:
            os.kill(child, signal.SIGKILL)
        ends = [os.waitpid(child, 0)[1] for child in children]
        hit += all(map(os.WIFSIGNALED, ends)) and saved_at(folder) != before
    expect_success(start(folder, world_size))
    return hit


def saved_at(folder: Path) -> int:
    path = folder / LAST
    return path.stat().st_mtime_ns if path.exists() else 0


def wait_for_progress(folder: Path, before: int, children: list[int]) -> None:
    deadline = time.monotonic() + 60
    while saved_at(folder) == before and time.monotonic() < deadline:
        if any(os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) for child in children):
            return
        time.sleep(0.002)


def main() -> None:
    torch.set_num_threads(1)
    os.fsync = lambda descriptor: None  # nothing here cuts the power
    runs = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps([train_with_kills(Path(folder), size, kills) for folder, size, kills in runs]))


if __name__ == "__main__":
    main()
