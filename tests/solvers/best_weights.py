"""The weights that an experiment is remembered for, in the networks of the solver that trained it."""

from typing import Any

from solfa.solvers.fabric.wrappers import unwrapped
from solfa.solvers.standard import StandardSolver
from solfa.xp.layout import BEST
from solfa.xp.state_file import load_module, read_state


def load_best(solver: StandardSolver[Any]) -> None:
    """Load the best weights, ready to be listened to."""
    for name, state in read_state(solver.experiment.folder / BEST)["states"].items():
        network = unwrapped(getattr(solver, name))
        load_module(name, network, state)
        network.eval()
