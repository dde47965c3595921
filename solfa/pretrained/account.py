"""Account for every weight: refuse checkpoints with missing, unexpected or misshapen tensors."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from torch import Tensor, nn

from solfa.errors import ConfigError
from solfa.pretrained.tensors import TensorFiles

MOST_NAMES = 8


def check_accounted(
    missing: Collection[str], unexpected: Collection[str], mismatched: Collection[str], where: str
) -> None:
    """Raise one sentence that names the missing, unexpected and misshapen tensors, if there are any."""
    faults = (("missing", missing), ("unexpected", unexpected), ("wrong shape", mismatched))
    parts = [f"{kind} {_listed(sorted(names))}" for kind, names in faults if names]
    if parts:
        raise ConfigError(
            f"{where}: the weights do not fit the architecture: {'; '.join(parts)}; "
            "pass the checkpoint that matches this configuration"
        )


def check_tensors(files: TensorFiles, wanted: Mapping[str, tuple[int, ...]], known: set[str], where: str) -> None:
    """Refuse tensors that are missing, have the wrong shape, or are neither `wanted` nor `known`."""
    found = {name: files.shape(name) for name in wanted.keys() & files.names}
    check_accounted(wanted.keys() - files.names, files.names - wanted.keys() - known, _reshaped(found, wanted), where)


def check_loaded(info: Mapping[str, Any], where: str, is_spare: Callable[[str], bool] = lambda name: False) -> None:
    """Check a library's report from `from_pretrained(output_loading_info=True)`; spare tensors may be left over."""
    check_accounted(
        info["missing_keys"],
        [name for name in info["unexpected_keys"] if not is_spare(name)],
        [_shapes(name, found, wanted) for name, found, wanted in info["mismatched_keys"]],
        where,
    )


def load_exactly(model: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Copy `state` into `model`; any tensor that is missing, left over or of the wrong shape is an error.

    >>> import torch
    >>> from solfa.pretrained import load_exactly
    >>> load_exactly(torch.nn.Linear(2, 2), {"weight": torch.zeros(2, 2)}, "a checkpoint")
    Traceback (most recent call last):
    solfa.errors.ConfigError: a checkpoint: the weights do not fit the architecture: missing bias; ...
    """
    own = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(state[name].shape) for name in own.keys() & state.keys()}
    check_accounted(own.keys() - state.keys(), state.keys() - own.keys(), _reshaped(found, own), where)
    model.load_state_dict(dict(state))


def _reshaped(found: Mapping[str, tuple[int, ...]], wanted: Mapping[str, tuple[int, ...]]) -> list[str]:
    return [_shapes(name, shape, wanted[name]) for name, shape in found.items() if shape != wanted[name]]


def _shapes(name: str, found: Collection[int], wanted: Collection[int]) -> str:
    return f"{name} {list(found)} instead of {list(wanted)}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
