"""What running an experiment from Python returns: its folder, its history, its model."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from solfa.xp.record import Epoch, read_experiment

if TYPE_CHECKING:
    from solfa.generate.model import Model


@dataclass(frozen=True)
class Run:
    """A trained experiment: where it is, how training went, and the model."""

    folder: Path
    signature: str
    """The name of the experiment, the same for the same settings."""

    @property
    def history(self) -> tuple[Epoch, ...]:
        """One entry per epoch: {stage: {metric: value}}."""
        return read_experiment(self.folder).history

    @cached_property
    def model(self) -> "Model":
        """The trained model with its best weights, to generate with."""
        from solfa.generate.model import load_model

        return load_model(self.folder)
