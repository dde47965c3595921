"""A user's own folder with a solver, its YAML and a grid, and Dora's entry point as it is found there."""

import os
from pathlib import Path
from typing import Any

OWN = Path(__file__).parent / "own"
ROOT = Path(__file__).parents[2]


def own_variables(dora_dir: Path) -> dict[str, str]:
    """The variables of a user who works in that folder, and one thread, because tests run side by side."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SOLFA_", "AUDIOCRAFT_"))}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(OWN), str(ROOT)]),
        "SOLFA_SEARCH_PATH": str(OWN / "conf"),
        "SOLFA_DORA_DIR": str(dora_dir),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
    }


def make_main() -> Any:
    """Make the entry point with this process's variables, as `solfa.train` does when it is imported."""
    from solfa.experiments.compose.experiment_main import ExperimentMain
    from solfa.experiments.run.execution import run_experiment

    def run(xp: Any) -> None:
        run_experiment(xp, made.settings(xp), made.environment)

    run.__module__ = "solfa.train"
    made = ExperimentMain(run)
    return made
