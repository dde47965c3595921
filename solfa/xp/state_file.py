"""Training state files: written whole or not at all, read without running any code in them."""

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
    """Replace a file with a new state; a process killed here leaves the old one, and so does a full disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        # Through a file of Python's: torch's own says only that writing failed, and not why.
        with temporary.open("wb") as file:
            torch.save({"format": FORMAT, **state}, file)
        sync(temporary)
        crash_point("checkpoint:before-rename")
        temporary.replace(path)
        crash_point("checkpoint:after-rename")
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def read_state(path: str | Path) -> dict[str, Any]:
    """Read a state to the CPU, refusing anything but tensors and plain values.

    >>> from solfa.xp import read_state
    >>> sorted(read_state("solfa/xps/899630c8/best.pt")["states"])
    ['model']
    """
    path = Path(path)
    try:
        state = read_plain(path)
    except ValueError as reason:
        raise StoreError(f"{path}: expected a checkpoint written by Solfa, found {reason}") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        found = state.get("format") if isinstance(state, dict) else type(state).__name__
        raise StoreError(f"{path}: expected a checkpoint with format {FORMAT}, found {found!r}")
    return state


def superfluous(epochs: list[int], keep_last: int | None) -> list[int]:
    """List the copies that are not among the last `keep_last`."""
    return [] if keep_last is None else sorted(epochs)[:-keep_last]


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files left by processes that were killed while writing."""
    for path in leftovers(folder):
        path.unlink(missing_ok=True)


def load_module(name: str, module: nn.Module, state: Mapping[str, Any]) -> None:
    """Load weights strictly; the error names what does not fit."""
    for key, own in module.state_dict().items():
        if isinstance(own, Tensor) and key in state and own.shape != state[key].shape:
            raise StoreError(
                f"{name}.{key}: expected shape {tuple(own.shape)}, found {tuple(state[key].shape)} in the "
                "checkpoint; use the model settings it was trained with"
            )
    # Compared only now, because loading may resize a module (the table of a vocabulary).
    missing, unexpected = module.load_state_dict(dict(state), strict=False)
    for key in [*missing, *unexpected]:
        where = "the checkpoint" if key in missing else "the model"
        raise StoreError(f"{name}.{key}: missing from {where}; it belongs to another model or version")
