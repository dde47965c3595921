"""Checkpoints in the `save_pretrained` layout as files: a local directory or a Hub id, one file of weights or shards.

Tensors are read one by one, so what is not asked for costs no memory.
"""

import json
import pickle
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from solfa.errors import ConfigError
from solfa.files.json_objects import read_object

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""In the order in which they are looked for; a shard index is the name and `.index.json`."""
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


class TensorFiles:
    """The tensors of a checkpoint by name, read when they are asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._readers = dict(_readers(_weight_files(directory)))

    @property
    def names(self) -> set[str]:
        return set(self._readers)

    def read(self, name: str) -> Tensor:
        """Read one tensor, with the dtype of the file."""
        reader = self._readers[name]
        tensor: Tensor = reader[name] if isinstance(reader, dict) else reader.get_tensor(name)
        return tensor

    def shape(self, name: str) -> tuple[int, ...]:
        """Give the shape of a tensor without reading it."""
        reader = self._readers[name]
        return tuple(reader[name].shape if isinstance(reader, dict) else reader.get_slice(name).get_shape())

    def part(self, prefix: str) -> dict[str, Tensor]:
        """Read all tensors whose names begin so, under the rest of their names, each into memory of its own."""
        # Tied tensors of a torch file share theirs, which safetensors would refuse to write.
        found = sorted(name for name in self.names if name.startswith(prefix))
        return {name.removeprefix(prefix): self.read(name).clone() for name in found}


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
            raise ConfigError(f"checkpoint {path}: the shard index names it, but there is no such file")
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
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"checkpoint {path}: expected tensors only, found something else ({reason})") from error
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ConfigError(f"checkpoint {path}: expected a dictionary of tensors by name")
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    if not path.is_file():
        raise ConfigError(f"checkpoint {path}: no such file; expected a directory as save_pretrained writes it")
    return read_object(path, ConfigError, f"checkpoint {path}")


def local_directory(location: str | Path, revision: str | None = None) -> Path:
    """Give the directory of a checkpoint, from the Hub (or its cache) if `location` is no directory here."""
    if Path(location).is_dir():
        if revision is not None:
            raise ConfigError(f"checkpoint {location}: a local directory has no revision, found {revision!r}")
        return Path(location)
    if isinstance(location, Path) or not _HUB_ID.fullmatch(location):
        raise ConfigError(f"checkpoint {location}: expected a directory or a Hub id such as facebook/musicgen-small")
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.model", "model*.safetensors"]
    try:
        directory = Path(snapshot_download(location, revision=revision, allow_patterns=patterns))
        if not any(directory.glob("model*.safetensors")):
            snapshot_download(location, revision=revision, allow_patterns=["pytorch_model*.bin"])
    except OSError as error:
        raise ConfigError(
            f"checkpoint {location}: no such directory, and the Hub model is neither in the local cache nor reachable; "
            "connect to the network once, or pass a local directory"
        ) from error
    return directory


def check_tensors(files: TensorFiles, wanted: Mapping[str, tuple[int, ...]], known: set[str], where: str) -> None:
    """Refuse, by name, tensors that are missing, of another shape, or neither `wanted` nor `known`."""
    shapes = {name: files.shape(name) for name in wanted.keys() & files.names}
    faults = {
        "missing": sorted(wanted.keys() - files.names),
        "unexpected": sorted(files.names - wanted.keys() - known),
        "of another shape": [
            f"{name} {list(shape)} instead of {list(wanted[name])}"
            for name, shape in sorted(shapes.items())
            if shape != wanted[name]
        ],
    }
    if any(faults.values()):
        listed = "; ".join(f"{kind} {_listed(names)}" for kind, names in faults.items() if names)
        raise ConfigError(f"{where}: the weights do not fit config.json: {listed}; pass files that belong together")


def _listed(names: list[str], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


@contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """Give a temporary directory that gets its name when everything in it is written."""
    if directory.exists():
        raise ConfigError(f"{directory}: already exists; choose a new directory, or remove it")
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        temporary.rename(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_checkpoint(directory: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write `config.json` and `model.safetensors`."""
    from safetensors.torch import save_file

    (directory / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # transformers refuses a file that does not say which framework wrote it.
    save_file(whole, directory / "model.safetensors", metadata={"format": "pt"})


def copy_beside(source: Path, directory: Path, patterns: tuple[str, ...]) -> None:
    """Copy the small files that stand beside weights (tokenizer, generation settings), but no config and no index."""
    for path in sorted({path for pattern in patterns for path in source.glob(pattern)}):
        if path.name != "config.json" and not path.name.endswith(".index.json"):
            shutil.copyfile(path, directory / path.name)
