"""Experiments: from what a user typed to a validated run in its own folder, as one process, several, or a grid."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.experiments.run.encoded_source import prepare_dset
    from solfa.experiments.trained_run import Run
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.experiments.run.encoded_source": ["prepare_dset"],
            "solfa.experiments.trained_run": ["Run"],
        },
    )

__all__ = ["Run", "prepare_dset"]
