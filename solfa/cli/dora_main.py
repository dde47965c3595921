"""Bring Dora's entry point into a command, with the same modules in reach as under `dora`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from solfa.experiments.composing import ExperimentMain


def load_main() -> "ExperimentMain":
    """Import the entry point; solvers and grids of one's own are found in the working directory, too."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    from solfa.train import main

    return main
