"""Bring Dora's entry point into a command, with the same modules in reach as under `dora`."""

from typing import TYPE_CHECKING

from solfa.cli.own_modules import reach_own_modules

if TYPE_CHECKING:
    from solfa.experiments.compose.experiment_main import ExperimentMain


def load_main() -> "ExperimentMain":
    """Import the entry point; solvers and grids of one's own are found in the working directory, too."""
    reach_own_modules()
    from solfa.train import main

    return main
