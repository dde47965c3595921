"""Train what the settings in some folders say, and generate: in the first by two processes, in the others by one.

python -m tests.solvers.mot_driver TOGETHER ALONE...

Settings of 64 bits are those of 32, with a model that computes in float64.
"""

import json
import os
import sys
from pathlib import Path

import lightning_fabric  # noqa: F401  (imported before forking)
import torch

from solfa.generate.request import ClipRequest
from solfa.solvers.tasks.mot import MoTSolver
from tests.forked import expect_success, fork_ranks, free_port, launcher_variables
from tests.solvers.mot_runs import RATE, PreciseMoT, ask, solver_of

SETTINGS, GENERATED = "settings.json", "generated.json"
DOUBLE = "64-true"
WORLD_SIZE = 2


def train(folder: Path) -> None:
    values = json.loads((folder / SETTINGS).read_text())
    precise = values["precision"] == DOUBLE
    if precise:
        values["precision"] = "32-true"
    solver = solver_of(folder, values, kind=PreciseMoT if precise else MoTSolver)
    solver.run()
    if solver.is_first_rank:
        (codes,) = ask(solver, ClipRequest("clip", 10 / RATE, 0, "rising"))
        (folder / GENERATED).write_text(json.dumps(codes.tolist()))


def train_as(rank: int, port: int, folder: Path) -> None:
    os.environ.update(launcher_variables(rank, WORLD_SIZE, port))
    train(folder)


def main() -> None:
    torch.set_num_threads(1)
    together, *alone = map(Path, sys.argv[1:])
    port = free_port()
    expect_success(fork_ranks(WORLD_SIZE, lambda rank: train_as(rank, port, together)))
    for folder in alone:
        train(folder)


if __name__ == "__main__":
    main()
