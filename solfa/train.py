"""The entry point of a run, which Dora imports: `dora run solver=lm/debug`, and `solfa train` is the same.

compose (Hydra) ──► validate (pydantic) ──► the settings of the experiment ──► data ──► solver.run()
"""

from dora.xp import XP

from solfa.experiments.compose.experiment_main import ExperimentMain
from solfa.experiments.processes.ddp import supply_dora
from solfa.experiments.run.execution import run_experiment

supply_dora()


@ExperimentMain
def main(xp: XP) -> None:
    """Run the experiment that was composed."""
    run_experiment(xp, main.settings(xp), main.environment)
