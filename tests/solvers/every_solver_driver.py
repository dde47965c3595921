"""Train every solver by two processes, one of which is dealt no clip in the last step of judging; then judge twice.

python -m tests.solvers.every_solver_driver FOLDER

Each run writes `judged.json`: what two processes find that share the clips, and what they find if each has all.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import lightning_fabric  # noqa: F401  (imported before forking)
import torch

from solfa.data.batching.stage_batches import make_stage_loader
from solfa.solvers.fabric.devices import gather_objects
from solfa.solvers.standard import StandardSolver
from tests.forked import expect_success, fork_ranks, free_port, launcher_variables
from tests.solvers.every_solver import KINDS, NUM_CLIPS, Data, build_solver, compute_in_double
from tests.solvers.mot_runs import World

WORLD_SIZE = 2


def judge(solver: StandardSolver[Any]) -> dict[str, Any]:
    """Judge with the clips dealt and with all of them on each process, and count the steps of padding on each."""
    compute_in_double(solver)
    padded = sum(batch.is_padding for batch in solver.dataloaders["valid"])
    dealt = solver.run_stage("valid")
    assert solver.cfg.dataset is not None
    # All clips on both processes: twice as much of everything, so the same means and the same frequencies.
    solver.dataloaders["valid"] = make_stage_loader(solver.sources["valid"], solver.cfg.dataset, "valid")
    whole = solver.run_stage("valid")
    return {"padded": gather_objects(solver.fabric, padded), "dealt": dealt, "whole": whole}


def work(rank: int, port: int, folder: Path, data: Data) -> None:
    os.environ.update(launcher_variables(rank, WORLD_SIZE, port))
    for kind in KINDS:
        for num_clips in NUM_CLIPS[kind]:
            place = folder / f"{kind}-{num_clips}"
            solver = build_solver(kind, data, place, num_clips)
            solver.run()
            found = judge(solver)
            if rank == 0:
                (place / "judged.json").write_text(json.dumps(found))


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    paths = map(Path, json.loads((folder / "settings.json").read_text())["data"])
    songs, base, donor, captioned, coarse, fine, latents = paths
    port, data = free_port(), Data(songs, World(base, donor, captioned), coarse, fine, latents)
    expect_success(fork_ranks(WORLD_SIZE, lambda rank: work(rank, port, folder, data)))


if __name__ == "__main__":
    main()
