"""Weights to start from, or to put an adapter on: an experiment's, an exported model's, or those of somebody else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from solfa.errors import ConfigError, StoreError
from solfa.generate.built_in.model_release import BUILT_IN_MODELS, released_folder
from solfa.models.adapters.attachment import is_stored_adapter
from solfa.pretrained.tensors import TensorFiles
from solfa.xp.layout import BEST, CONFIG, LAST
from solfa.xp.record import read_settings
from solfa.xp.state_file import read_state

MODEL_TYPE = "solfa_model"
"""How an exported folder says what it is."""


class BaseWeights(NamedTuple):
    """Weights of networks that Solfa wrote."""

    path: Path
    state: Mapping[str, Any]
    """A checkpoint; of an exported model, the parts that matter here."""

    @property
    def networks(self) -> Mapping[str, Any]:
        """The states of the networks, by name."""
        networks: Mapping[str, Any] = self.state["states"]
        return networks


def read_base(location: str, *, wants_last: bool = False, reads_files: bool = False) -> BaseWeights | None:
    """Read an experiment's folder, a checkpoint file, an exported or built-in model; None if the solver has to load it.

    `wants_last` takes the last state of an experiment, which has more than weights. With `reads_files`, a file that is
    no checkpoint is for the solver, too.
    """
    name = location.removeprefix("//pretrained/")
    path = released_folder(name) if name in BUILT_IN_MODELS else Path(location).expanduser()
    if path.is_dir() and ((path / LAST).exists() or (path / BEST).exists()):
        path = path / (LAST if wants_last or not (path / BEST).exists() else BEST)
    if path.is_file():
        try:
            found = BaseWeights(path, read_state(path))
        except StoreError:
            if reads_files:
                return None
            raise
        _refuse_adapters(found)
        return found
    return _exported(path) if is_exported(path) else None


def is_exported(folder: Path) -> bool:
    """Say whether a folder is one that `export_model` wrote."""
    return (folder / CONFIG).is_file() and read_settings(folder).get("model_type") == MODEL_TYPE


def exported_state(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Read the weights and other state of an exported model."""
    files = TensorFiles(folder)
    return {**{name: files.read(name) for name in files.names}, **config["extra_state"]}


def _exported(folder: Path) -> BaseWeights:
    config = read_settings(folder)
    if config.get("adapters"):
        raise ConfigError(
            f"continue_from: {folder} holds an adapter of a text model beside its weights, which no run can continue "
            "from; continue from the experiment that the adapter was trained on"
        )
    state = {"states": {"model": exported_state(folder, config)}, "epoch": config["about"].get("epoch")}
    return BaseWeights(folder, state)


def _refuse_adapters(found: BaseWeights) -> None:
    for state in found.networks.values():
        if isinstance(state, Mapping) and is_stored_adapter(state):
            raise ConfigError(
                f"continue_from: {found.path} holds an adapter alone, expected whole weights; merge it with "
                "solfa export-model SIG FOLDER, and continue from that folder"
            )
