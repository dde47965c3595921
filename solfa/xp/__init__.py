"""An experiment's folder: its file names, what its records say, its state files, its lock."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.xp.paths import resolve_path, resolve_paths
    from solfa.xp.record import ExperimentRecord, find_experiment, list_experiments, read_experiment
    from solfa.xp.removal import remove_experiment
    from solfa.xp.state_file import read_state
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.xp.paths": ["resolve_path", "resolve_paths"],
            "solfa.xp.record": ["ExperimentRecord", "find_experiment", "list_experiments", "read_experiment"],
            "solfa.xp.removal": ["remove_experiment"],
            "solfa.xp.state_file": ["read_state"],
        },
    )

__all__ = [
    "ExperimentRecord",
    "find_experiment",
    "list_experiments",
    "read_experiment",
    "read_state",
    "remove_experiment",
    "resolve_path",
    "resolve_paths",
]
