"""Turn composed values into a solver's typed settings, and handle an experiment that started with different ones."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from solfa.config import parse_config
from solfa.demo.demo_paths import place_demo
from solfa.environment.teams import Environment
from solfa.errors import ConfigError
from solfa.experiments.compose.signature import is_excluded
from solfa.experiments.compose.union_kinds import leave_out_other_kinds
from solfa.files.whole_files import replace_atomically
from solfa.solvers.catalogue import find_solver
from solfa.solvers.config import SolverConfig
from solfa.solvers.standard import StandardSolver
from solfa.xp.layout import CONFIG, LAST
from solfa.xp.paths import resolve_paths
from solfa.xp.record import read_settings

_NOT_SETTINGS = ("dora", "slurm")

Way = tuple[str, ...]
"""The path of keys to a value."""


class Settings(NamedTuple):
    """A solver and its settings."""

    solver: type[StandardSolver[Any]]
    cfg: SolverConfig


class SettingChange(NamedTuple):
    """A setting whose value changed; None where it is or was absent."""

    key: str
    stored: Any
    new: Any


def parse_settings(values: Mapping[str, Any], environment: Environment, given: Collection[str] = ()) -> Settings:
    """Find the solver, resolve paths, and validate; `given` are the overridden keys."""
    kept = {key: value for key, value in values.items() if key not in _NOT_SETTINGS}
    name = kept.get("solver")
    if not isinstance(name, str):
        raise ConfigError(f"solver: expected the chosen YAML to name a solver, found {name!r}")
    solver = find_solver(name)
    resolved = place_demo(resolve_paths(kept, environment), environment.dora_dir)
    chosen = leave_out_other_kinds(solver.Config, resolved, given)
    return Settings(solver, parse_config(solver.Config, chosen, f"solver {name}"))


def changed_keys(stored: Mapping[str, Any], new: Mapping[str, Any], exclude: list[str]) -> list[SettingChange]:
    """List the settings that changed, among those that define the experiment.

    Absent and null count as equal, so that a new version with one more feature, switched off, can continue old
    experiments.
    """
    before, after = _flat(stored), _flat(new)
    return [
        SettingChange(".".join(way), before.get(way), after.get(way))
        for way in sorted(before.keys() | after.keys())
        if before.get(way) != after.get(way) and not is_excluded(way, exclude)
    ]


def keep_stored(stored: Mapping[str, Any], new: Mapping[str, Any], exclude: list[str]) -> dict[str, Any]:
    """Take the settings that define the experiment from `stored`, and everything else from `new`."""
    own = {way: value for way, value in _flat(stored).items() if not is_excluded(way, exclude)}
    other = {way: value for way, value in _flat(new).items() if is_excluded(way, exclude)}
    return _nested({**own, **other})


def settle(folder: Path, settings: Settings, exclude: list[str], *, write: bool) -> Settings:
    """Compare with the settings the experiment started with; refuse, keep or adopt changes, and store the result.

    Settings can change under the same signature: it covers what differs from the files, not what the files say.
    """
    new = settings.cfg.model_dump(mode="json")
    begun = (folder / LAST).is_file() and (folder / CONFIG).is_file()
    stored = read_settings(folder, "use `clear=True`") if begun else None
    changes = changed_keys(stored, new, exclude) if stored is not None else []
    if stored is not None and changes:
        if settings.cfg.on_changed_default == "refuse":
            raise ConfigError(_refusal(folder, changes))
        if settings.cfg.on_changed_default == "keep":
            new = keep_stored(stored, new, exclude)
            settings = Settings(settings.solver, parse_config(settings.solver.Config, new, str(folder / CONFIG)))
    if write and new != stored:
        replace_atomically(folder / CONFIG, (json.dumps(new, indent=2) + "\n").encode())
    return settings


def _refusal(folder: Path, changes: list[SettingChange]) -> str:
    listed = "; ".join(f"{change.key} was {_shown(change.stored)}, now {_shown(change.new)}" for change in changes)
    return (
        f"{folder}: this experiment started with other settings ({listed}) and was left as it is; add "
        "on_changed_default=keep to continue with the old ones, on_changed_default=adopt to switch to the new ones, "
        "or use `clear=True` to start over (a value given on the command line makes a new experiment instead)"
    )


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _flat(values: Mapping[str, Any], outer: Way = ()) -> dict[Way, Any]:
    """Map the path of every value to the value; an empty group counts as a value."""
    found: dict[Way, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= _flat(value, (*outer, key))
        else:
            found[*outer, key] = value
    return found


def _nested(flat: Mapping[Way, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for (*way, last), value in flat.items():
        inner = values
        for part in way:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return values
