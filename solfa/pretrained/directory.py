"""A checkpoint's directory as `save_pretrained` writes it.

config.json             the architecture
model.safetensors       the weights, or pytorch_model.bin; large ones in shards with an index
tokenizer*, *.model     the tokenizer and other small files
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from solfa.errors import ConfigError
from solfa.files.json_objects import read_object

CONFIG = "config.json"
TEXT_WEIGHTS = ("*.safetensors", "*.bin")
"""transformers reads the first kind that exists."""
TEXT_FILES = (
    CONFIG,
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab*",
    "merges.txt",
    "*.model",
    "*.index.json",
)
"""The files besides the weights that affect what a text model computes."""


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    if not path.is_file():
        raise ConfigError(f"checkpoint {path}: no such file; expected a directory written by save_pretrained")
    return read_object(path, ConfigError, f"checkpoint {path}")


def read_config(directory: Path) -> dict[str, Any]:
    """Read a checkpoint's `config.json`."""
    return read_json(directory / CONFIG)


def named_files(directory: Path) -> list[Path]:
    """List the files that determine what a text model computes, sorted by name."""
    weights = next((found for pattern in TEXT_WEIGHTS if (found := sorted(directory.glob(pattern)))), [])
    around = {path for pattern in TEXT_FILES for path in directory.glob(pattern) if path.is_file()}
    return sorted({*weights, *around})


def write_checkpoint(directory: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write `config.json` and `model.safetensors`."""
    from safetensors.torch import save_file

    (directory / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # transformers rejects a file that does not say which framework wrote it.
    save_file(whole, directory / "model.safetensors", metadata={"format": "pt"})


def copy_beside(source: Path, directory: Path, patterns: tuple[str, ...]) -> None:
    """Copy the small files next to the weights (tokenizer, generation settings), but neither config nor index."""
    for path in sorted({path for pattern in patterns for path in source.glob(pattern)}):
        if path.name != CONFIG and not path.name.endswith(".index.json"):
            shutil.copyfile(path, directory / path.name)
