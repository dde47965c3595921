"""Read a checkpoint of PyTorch Lightning without running code: its weights, and its settings as plain values.

Lightning stores the settings of a run as objects of OmegaConf, next to objects of its own, and a file that wants to
make objects is refused elsewhere. Here the names of these libraries stand for empty shells, which keep what the file
says about an object and do nothing; any other name is refused as ever.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from solfa.errors import ConfigError
from solfa.files.torch_files import read_plain

_LIBRARIES = ("omegaconf.", "pytorch_lightning.", "lightning.", "lightning_fabric.", "typing.", "pathlib.")
_TYPES = tuple(f"builtins.{name}" for name in ("dict", "list", "tuple", "str", "int", "float", "bool"))
_STATE, _SETTINGS = "state_dict", "hyper_parameters"


class LightningCheckpoint(NamedTuple):
    """What a checkpoint holds that is of use without the trainer that wrote it."""

    state: dict[str, Tensor]
    settings: dict[str, Any] | None
    """The settings of the run; None if the file has none."""


class Shell:
    """An object of another library: its attributes, and nothing that runs."""

    def __init__(self, *arguments: object) -> None:
        pass


def read_lightning(path: Path) -> LightningCheckpoint:
    """Read a `.ckpt`, or a file that holds the weights alone."""
    if not path.is_file():
        raise ConfigError(f"checkpoint {path}: no such file")
    try:
        content = read_plain(path, stand_ins=_stand_in)
    except ValueError as reason:
        raise ConfigError(f"checkpoint {path}: expected a checkpoint of PyTorch Lightning, found {reason}") from None
    state = content.get(_STATE, content) if isinstance(content, Mapping) else None
    if not isinstance(state, Mapping) or not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise ConfigError(f"checkpoint {path}: expected a dictionary of tensors, or one under {_STATE!r}")
    settings = plain_settings(content.get(_SETTINGS)) if _STATE in content else None
    tensors = {str(name): value.detach() for name, value in state.items()}
    return LightningCheckpoint(tensors, settings if isinstance(settings, dict) else None)


def plain_settings(value: Any) -> Any:
    """Turn OmegaConf's objects, as shells, into dictionaries, lists and plain values."""
    if isinstance(value, Shell):
        inside = vars(value)
        return plain_settings(inside.get("_content", inside.get("_val")))
    if isinstance(value, Mapping):
        return {str(key): plain_settings(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_settings(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool) else None


def _stand_in(name: str) -> Any:
    """Return what a name in the file stands for, or None if it is refused."""
    if name == "collections.defaultdict":
        return _empty_dict
    if name.endswith(".AttributeDict") and name.startswith(_LIBRARIES):
        return dict
    return Shell if name.startswith(_LIBRARIES) or name in _TYPES else None


def _empty_dict(*arguments: object) -> dict[Any, Any]:
    return {}
