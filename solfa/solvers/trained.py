"""Open a trained experiment by its folder alone: its stored settings and its best weights, no data."""

import json
from pathlib import Path
from typing import Any

from solfa.config import parse_config
from solfa.errors import ConfigError, StoreError
from solfa.solvers.catalogue import find_solver
from solfa.solvers.experiment import Experiment
from solfa.solvers.standard import StandardSolver
from solfa.xp.layout import BEST, CONFIG
from solfa.xp.state_file import read_state

_ALONE = {"strategy": "auto", "num_nodes": 1}
"""However many processes trained it: one opens it."""


def open_trained(folder: Path, **changes: Any) -> StandardSolver[Any]:
    """Build the solver of an experiment with its best weights; `changes` replace top-level settings (device, codec)."""
    settings, best = folder / CONFIG, folder / BEST
    for path in (settings, best):
        if not path.is_file():
            raise ConfigError(f"{folder}: expected a trained experiment, found no {path.name}; train it first")
    values = {**_stored(settings), **_ALONE, **changes}
    solver_class = find_solver(str(values.get("solver")))
    cfg = parse_config(solver_class.Config, values, str(settings))
    solver = solver_class(cfg, Experiment(folder, folder.name), read_state(best)["data_facts"])
    solver.load_best()
    return solver


def _stored(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes())
    except ValueError as error:
        raise StoreError(f"{path}: expected the settings of a run, found no JSON ({error})") from None
    if not isinstance(values, dict):
        raise StoreError(f"{path}: expected the settings of a run, found a {type(values).__name__}")
    return values
