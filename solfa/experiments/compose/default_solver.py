"""Choose the solver of a run that names none, and write the choice into its overrides.

An experiment is identified by its overrides, so a default that differs between machines has to be one of them: else
the same signature would mean two models. An experiment that has begun stays what it is, whatever machine continues it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from solfa.environment.accelerator import choose_device
from solfa.experiments.compose.overrides import key_of
from solfa.xp.layout import LAST

if TYPE_CHECKING:
    from dora.xp import XP

    from solfa.experiments.compose.experiment_main import ExperimentMain

WITHOUT_GPU = "solver=lm/laptop"
_CHOICES = frozenset({"solver", "experiment", "model"})
"""Whoever names one of these has chosen."""


class ChosenRun(NamedTuple):
    """An experiment, and why it has the solver it has; empty if that was typed."""

    xp: "XP"
    reason: str = ""


def compose_here(main: "ExperimentMain", argv: Sequence[str]) -> ChosenRun:
    """Compose what was typed; without a solver, with the one that suits this machine."""
    if any(key_of(text) in _CHOICES for text in argv):
        return ChosenRun(main.compose(argv))
    small = [WITHOUT_GPU, *argv]
    for words, name in ((list(argv), "solver=lm/base"), (small, WITHOUT_GPU)):
        xp = main.compose(words)
        if (xp.folder / LAST).is_file():
            return ChosenRun(xp, f"{name}, with which this experiment began")
    devices = [text.partition("=")[2] for text in argv if key_of(text) == "device"]
    if choose_device(devices[-1] if devices else "auto") == "cuda":
        return ChosenRun(main.compose(argv), "solver=lm/base, the default on a machine with a GPU")
    return ChosenRun(xp, f"{WITHOUT_GPU}, the default without a CUDA GPU; type solver=lm/base for the large model")
