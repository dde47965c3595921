"""Files of training state: written whole or not at all, read without running any code that they hold."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from solfa.errors import StoreError
from solfa.files.crash_points import crash_point
from solfa.files.torch_files import read_plain
from solfa.files.whole_files import sync
from solfa.xp.layout import leftovers

FORMAT = 1


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Replace a file by a new state; a process killed here leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        torch.save({"format": FORMAT, **state}, temporary)
        sync(temporary)
        crash_point("checkpoint:before-rename")
        temporary.replace(path)
        crash_point("checkpoint:after-rename")
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def read_state(path: str | Path) -> dict[str, Any]:
    """Read a state to the CPU, refusing anything but tensors and plain values."""
    path = Path(path)
    try:
        state = read_plain(path)
    except ValueError as reason:
        raise StoreError(f"{path}: expected a checkpoint written by Solfa, found {reason}") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        found = state.get("format") if isinstance(state, dict) else type(state).__name__
        raise StoreError(f"{path}: expected a checkpoint of format {FORMAT}, found {found!r}")
    return state


def superfluous(epochs: list[int], keep_last: int | None) -> list[int]:
    """Say which copies are not among the last `keep_last`."""
    return [] if keep_last is None else sorted(epochs)[:-keep_last]


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote."""
    for path in leftovers(folder):
        path.unlink(missing_ok=True)


def load_module(name: str, module: nn.Module, state: Mapping[str, Any]) -> None:
    """Load weights strictly; what does not fit is named."""
    for key, own in module.state_dict().items():
        if isinstance(own, Tensor) and key in state and own.shape != state[key].shape:
            raise StoreError(
                f"{name}.{key}: expected the shape {tuple(own.shape)}, found {tuple(state[key].shape)} in the "
                "checkpoint; use the model settings it was trained with"
            )
    # Compared only now, because a module may make room for what it is given (the table of a vocabulary).
    missing, unexpected = module.load_state_dict(dict(state), strict=False)
    for key in [*missing, *unexpected]:
        where = "the checkpoint" if key in missing else "the model"
        raise StoreError(f"{name}.{key}: missing in {where}; it belongs to another model or version")
