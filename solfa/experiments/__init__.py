"""Experiments: from what a user typed to a validated run in its own folder, as one process, several, or a grid."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.experiments.run.encoded_source import prepare_dset
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.experiments.run.encoded_source": ["prepare_dset"],
        },
    )

__all__ = ["prepare_dset"]
