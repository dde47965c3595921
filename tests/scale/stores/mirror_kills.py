"""Train the toy task in forked processes that die at named points of mirroring, and lose their folders with that.

Usage: python -m tests.scale.stores.mirror_kills FOLDER MIRROR POINT...   a script, because forking wants one thread.
FOLDER/whole is undisturbed; FOLDER/POINT was killed at a point, and then finished with nothing left but its mirror.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

import lightning_fabric  # noqa: F401  (imported before forking)
import torch

from solfa.config import parse_config
from solfa.files.crash_points import VARIABLE
from solfa.solvers.experiment import Experiment
from tests.forked import expect_success, fork_ranks
from tests.solvers.toy import ToyConfig, ToySolver, toy_values


def train(folder: Path, mirror: str | None, point: str | None = None) -> None:
    if point is not None:
        os.environ[VARIABLE] = point
    values = toy_values(checkpoint__minutes=1e-9, checkpoint__mirror=mirror, checkpoint__save_every=1)
    ToySolver(parse_config(ToyConfig, values, "toy"), Experiment(folder, "toy")).run()


def killed(folder: Path, mirror: str, point: str) -> None:
    (child,) = fork_ranks(1, lambda rank: train(folder, mirror, point))
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"{point}: not killed there ({status})"


def main(folder: Path, mirror: str, points: list[str]) -> None:
    torch.set_num_threads(1)
    expect_success(fork_ranks(1, lambda rank: train(folder / "whole", None)))
    for point in points:
        own, copy = folder / point, f"{mirror}/{point.replace('#', '-')}"
        if point.startswith("mirror:brought-back"):
            killed(own, copy, "mirror:after-file#12")
            shutil.rmtree(own)
            killed(own, copy, point)  # half a folder stays
        else:
            killed(own, copy, point)
            shutil.rmtree(own)
        expect_success(fork_ranks(1, lambda rank, own=own, copy=copy: train(own, copy)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
