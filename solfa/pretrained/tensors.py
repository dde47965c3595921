"""Weights with every tensor accounted for: reading files, hashing, and loading that names what does not fit."""

import hashlib
import pickle
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from solfa.errors import ConfigError


def weights_sha256(state: Mapping[str, Tensor]) -> str:
    """Hash names, dtypes, shapes and bytes of a state dict, in the order of the names.

    >>> import torch
    >>> from solfa.pretrained import weights_sha256
    >>> weights_sha256({"w": torch.zeros(2)}) == weights_sha256({"w": torch.zeros(2)})
    True
    """
    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(f"{name}\0{str(tensor.dtype).removeprefix('torch.')}\0{list(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Read tensors from `.safetensors`, or from a torch file that holds nothing but tensors and plain values."""
    if not path.is_file():
        raise ConfigError(f"checkpoint {path}: no such file")
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ConfigError(
            f"checkpoint {path}: expected a torch file of tensors and plain values, found something else "
            f"({str(error).splitlines()[0]}); export it as .safetensors"
        ) from error
    state = content.get("state_dict", content) if isinstance(content, dict) else content
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ConfigError(f"checkpoint {path}: expected a dictionary of tensors, or one under 'state_dict'")
    return {str(name): value.detach() for name, value in state.items()}


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except SafetensorError as error:
        raise ConfigError(f"checkpoint {path}: not a safetensors file ({error})") from error


def load_exactly(model: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Copy `state` into `model`; any tensor that is missing, left over or of another shape is an error."""
    own = model.state_dict()
    check_accounted(
        missing=own.keys() - state.keys(),
        unexpected=state.keys() - own.keys(),
        mismatched=[
            f"{name} {list(state[name].shape)} instead of {list(own[name].shape)}"
            for name in own.keys() & state.keys()
            if state[name].shape != own[name].shape
        ],
        where=where,
    )
    model.load_state_dict(dict(state))


def check_accounted(
    missing: Collection[str], unexpected: Collection[str], mismatched: Collection[str], where: str
) -> None:
    """Raise one sentence that names the tensors which a checkpoint lacks, has too many, or has in another shape."""
    parts = [
        f"{kind} {_listed(sorted(names))}"
        for kind, names in (("missing", missing), ("unexpected", unexpected), ("of another shape", mismatched))
        if names
    ]
    if parts:
        raise ConfigError(
            f"{where}: the weights do not fit the architecture: {'; '.join(parts)}; "
            "pass the checkpoint that belongs to this configuration"
        )


def _listed(names: list[str], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
