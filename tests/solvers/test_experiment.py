"""A solver gets its experiment whichever way its constructor is written."""

from pathlib import Path
from typing import Any

import pytest

from solfa.errors import ConfigError
from solfa.solvers.experiment import Experiment, build_solver, current_experiment

EXPERIMENT = Experiment(Path("here"), "here")


class Takes:
    """A constructor like StandardSolver's."""

    def __init__(self, cfg: Any, experiment: Experiment | None = None) -> None:
        self.cfg, self.experiment = cfg, experiment or current_experiment()


class PassesOn(Takes):
    """Both arguments, whatever they are."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)


class OnlyCfg(Takes):
    """AudioCraft's."""

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)


@pytest.mark.parametrize("solver", [Takes, PassesOn, OnlyCfg])
def test_the_experiment_arrives(solver: type[Takes]) -> None:
    built = build_solver(solver, 3, EXPERIMENT)
    assert (built.cfg, built.experiment) == (3, EXPERIMENT)


def test_without_an_experiment_the_sentence_says_what_to_pass() -> None:
    build_solver(OnlyCfg, 3, EXPERIMENT)
    with pytest.raises(ConfigError, match=r"super\(\)\.__init__\(cfg, experiment\)"):
        OnlyCfg(3)
