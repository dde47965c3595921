"""Load Dora's entry point for a command, with the same modules importable as under `dora`."""

from typing import TYPE_CHECKING

from solfa.cli.own_modules import reach_own_modules
from solfa.environment.collector import collector_paused

if TYPE_CHECKING:
    from solfa.experiments.compose.experiment_main import ExperimentMain


def load_main() -> "ExperimentMain":
    """Import the entry point; the user's own solvers and grids in the working directory are importable too."""
    reach_own_modules()
    with collector_paused():
        from solfa.train import main

    return main
