"""Files of training state: written whole or not at all, read without running any code that they hold.

XP/checkpoint.pt         the last state, to go on from
XP/checkpoint_0012.pt    a copy of the state after epoch 12 (`checkpoint.save_every`, `checkpoint.keep_last`)
XP/best.pt               the weights of the best epoch, and nothing else: what generating and fine-tuning need
"""

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from solfa.errors import StoreError
from solfa.files.crash_points import crash_point
from solfa.files.whole_files import sync

FORMAT = 1
LAST = "checkpoint.pt"
BEST = "best.pt"
_COPY = re.compile(r"checkpoint_(\d+)\.pt")
_CODE = re.compile(r"GLOBAL (\S+)")
"""How torch names what a file wants to call."""


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
    with path.open("rb") as file:
        try:
            state = torch.load(file, map_location="cpu", weights_only=True)
        except MemoryError:
            raise
        except Exception as error:
            # Bytes that are no checkpoint fail anywhere in torch: a KeyError, a UnicodeDecodeError, an OSError. What
            # it says of them is not repeated: it recommends to read the file unsafely.
            code = _CODE.search(str(error))
            reason = f"code in it ({code[1]}), which is not run" if code else "another file, or a damaged one"
            raise StoreError(f"{path}: expected a checkpoint written by Solfa, found {reason}") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        found = state.get("format") if isinstance(state, dict) else type(state).__name__
        raise StoreError(f"{path}: expected a checkpoint of format {FORMAT}, found {found!r}")
    return state


def copy_path(folder: Path, epoch: int) -> Path:
    """Name the copy of an epoch's state."""
    return folder / f"checkpoint_{epoch:04d}.pt"


def copied_epochs(folder: Path) -> list[int]:
    """List the epochs of which there is a copy."""
    matches = (_COPY.fullmatch(path.name) for path in folder.glob("checkpoint_*.pt"))
    return sorted(int(match[1]) for match in matches if match)


def superfluous(epochs: list[int], keep_last: int | None) -> list[int]:
    """Say which copies are not among the last `keep_last`."""
    return [] if keep_last is None else sorted(epochs)[:-keep_last]


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote."""
    for pattern in (".*.pt.*", ".*.json.*"):
        for path in folder.glob(pattern):
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
