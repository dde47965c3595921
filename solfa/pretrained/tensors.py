"""Read tensors from one file or a checkpoint's directory without running code, and hash them."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from solfa.errors import ConfigError
from solfa.files.torch_files import read_plain
from solfa.pretrained.directory import read_json

_WEIGHTS = (
    "model.safetensors",
    "pytorch_model.bin",
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.bin",
)
"""In the order they are tried; a shard index has `.index.json` appended. The last two are the names of diffusers."""


class TensorFiles:
    """The tensors of a checkpoint's directory by name, read on demand, so that unused ones take no memory.

    >>> import torch
    >>> from pathlib import Path
    >>> from safetensors.torch import save_file
    >>> from solfa.pretrained import TensorFiles
    >>> Path("checkpoint").mkdir()
    >>> save_file({"head.weight": torch.ones(2), "body.weight": torch.zeros(3)}, "checkpoint/model.safetensors")
    >>> files = TensorFiles(Path("checkpoint"))
    >>> sorted(files.names), files.part("head.")
    (['body.weight', 'head.weight'], {'weight': tensor([1., 1.])})
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._readers = dict(_readers(_weight_files(directory)))

    @property
    def names(self) -> set[str]:
        return set(self._readers)

    def read(self, name: str) -> Tensor:
        """Read one tensor with its stored dtype."""
        reader = self._readers[name]
        tensor: Tensor = reader[name] if isinstance(reader, dict) else reader.get_tensor(name)
        return tensor

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor without reading it."""
        reader = self._readers[name]
        return tuple(reader[name].shape if isinstance(reader, dict) else reader.get_slice(name).get_shape())

    def part(self, prefix: str) -> dict[str, Tensor]:
        """Read all tensors whose names start with `prefix`, keyed by the rest, each into its own memory."""
        # Tied tensors in a torch file share memory, which safetensors would refuse to write.
        found = sorted(name for name in self.names if name.startswith(prefix))
        return {name.removeprefix(prefix): self.read(name).clone() for name in found}


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Read tensors from `.safetensors`, or from a torch file that holds nothing but tensors and plain values.

    >>> import torch
    >>> from pathlib import Path
    >>> from solfa.pretrained import read_state_dict
    >>> torch.save({"state_dict": {"weight": torch.ones(2)}}, "model.ckpt")
    >>> read_state_dict(Path("model.ckpt"))
    {'weight': tensor([1., 1.])}
    """
    if not path.is_file():
        raise ConfigError(f"checkpoint {path}: no such file")
    if path.suffix == ".safetensors":
        file = _open_safetensors(path)
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
    content = _load_torch(path, mmap=False)
    state = content.get("state_dict", content) if isinstance(content, dict) else content
    if not _is_state_dict(state):
        raise ConfigError(f"checkpoint {path}: expected a dictionary of tensors, or one under 'state_dict'")
    return {str(name): value.detach() for name, value in state.items()}


def read_header(path: Path) -> dict[str, str]:
    """Read the notes in the header of a `.safetensors` file."""
    if not path.is_file():
        raise ConfigError(f"checkpoint {path}: no such file")
    return dict(_open_safetensors(path).metadata() or {})


def weights_sha256(state: Mapping[str, Tensor]) -> str:
    """Hash the names, dtypes, shapes and bytes of a state dict, sorted by name.

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


def halved(name: str, tensor: Tensor) -> Tensor:
    """Round weights to float16, for half the size; what does not fit is an error that names the tensor."""
    if not tensor.is_floating_point():
        return tensor
    rounded = tensor.half()
    if not torch.equal(rounded.isfinite(), tensor.isfinite()):
        raise ConfigError(f"{name}: expected weights below 65,504 for half precision, found larger; store float32")
    return rounded


def _weight_files(directory: Path) -> list[Path]:
    for name in _WEIGHTS:
        index = directory / f"{name}.index.json"
        if index.is_file():
            shards = read_json(index).get("weight_map", {})
            return [directory / shard for shard in sorted(set(shards.values()))]
        if (directory / name).is_file():
            return [directory / name]
    raise ConfigError(f"checkpoint {directory}: expected {' or '.join(_WEIGHTS)} (or shards of one), found neither")


def _readers(paths: list[Path]) -> Iterator[tuple[str, Any]]:
    for path in paths:
        if not path.is_file():
            raise ConfigError(f"checkpoint {path}: no such file, although the shard index lists it")
        reader = _open_safetensors(path) if path.suffix == ".safetensors" else _open_torch(path)
        for name in reader.keys():  # noqa: SIM118 - a safetensors file has keys() but is no mapping
            yield name, reader


def _open_safetensors(path: Path) -> Any:
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(path, framework="pt")
    except SafetensorError as error:
        raise ConfigError(f"checkpoint {path}: not a safetensors file ({error})") from error


def _open_torch(path: Path) -> Any:
    content = _load_torch(path, mmap=True)
    if not _is_state_dict(content):
        raise ConfigError(f"checkpoint {path}: expected a dictionary of tensors by name")
    return content


def _load_torch(path: Path, *, mmap: bool) -> Any:
    try:
        return read_plain(path, mmap=mmap)
    except ValueError as reason:
        raise ConfigError(
            f"checkpoint {path}: expected a torch file of tensors and plain values, found {reason}; "
            "export it as .safetensors"
        ) from reason


def _is_state_dict(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(tensor, Tensor) for tensor in value.values())
