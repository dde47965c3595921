"""Checkpoints in the `save_pretrained` layout, local or on the Hub, read by the library that wrote them."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from solfa.codecs.inference import Precision
from solfa.codecs.spec import CodecSpec
from solfa.errors import ConfigError
from solfa.files.json_objects import read_object
from solfa.pretrained.account import check_loaded
from solfa.pretrained.hub import HubFiles, find_config, local_directory, quiet_loading, unreachable
from solfa.pretrained.tensors import TensorFiles

_WHAT = "codec {}: the Hub model"
# The names that transformers and diffusers give them, safe ones first.
_WEIGHTS = (
    "model*.safetensors",
    "diffusion_pytorch_model*.safetensors",
    "pytorch_model*.bin",
    "diffusion_pytorch_model*.bin",
)


@dataclass(frozen=True)
class Checkpoint:
    """Where the weights of a codec are, and how to run them."""

    name: str
    """The name people use for it."""
    head: str
    """The spec without its options, valid in any working directory."""
    location: str | Path
    """A local directory (Path) or a Hub id (str)."""
    device: str = "cpu"
    precision: Precision = "fp32"
    subfolder: str = ""
    fixed_options: Mapping[str, str] = field(default_factory=dict)
    """Options that say where the weights are, and so are part of every spec."""
    part: str = ""
    """The codec is this part of a larger model: a key of its config.json, and the beginning of its tensors' names."""

    def spec(self, options: Mapping[str, int | bool]) -> str:
        """Return the text that loads the same codec with `options`."""
        texts = dict(self.fixed_options)
        texts |= {key: str(value).lower() for key, value in options.items()}
        if self.precision != "fp32":
            texts["precision"] = self.precision
        return str(CodecSpec(self.head, texts))


def read_config(checkpoint: Checkpoint) -> Mapping[str, Any] | None:
    """Read `config.json`; None if there is none."""
    path = find_config(checkpoint.location, checkpoint.subfolder, _WHAT.format(checkpoint.name))
    return None if path is None else read_object(path, ConfigError, f"codec {checkpoint.name}: {path}")


def load_pretrained(checkpoint: Checkpoint, model_class: Any) -> Any:
    """Call the library's `from_pretrained` in float32; refuse weights that do not fit, by name."""
    library = model_class.__module__.partition(".")[0]
    try:
        # Found before the libraries look for it: they would not give up without a connection for half a minute.
        source = _part(checkpoint, model_class) if checkpoint.part else _whole(checkpoint)
        with quiet_loading(library):
            model, info = model_class.from_pretrained(
                **source,
                # Explicit, because the libraries would otherwise keep the file's dtype.
                torch_dtype=torch.float32,
                # They are listed in `info` and refused below, instead of in a report that fills a page.
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
    except OSError as error:
        raise _unreachable(checkpoint) from error
    check_loaded(info, f"codec {checkpoint.name}")
    return model


def _whole(checkpoint: Checkpoint) -> dict[str, Any]:
    directory, subfolder = checkpoint.location, checkpoint.subfolder
    if not isinstance(directory, Path):
        weights = tuple(posixpath.join(subfolder, pattern) for pattern in _WEIGHTS)
        wanted = HubFiles(weights, (posixpath.join(subfolder, "*.json"),))
        directory = local_directory(directory, what=_WHAT.format(checkpoint.name), wanted=wanted)
    return {"pretrained_model_name_or_path": directory, **({"subfolder": subfolder} if subfolder else {})}


def _part(checkpoint: Checkpoint, model_class: Any) -> dict[str, Any]:
    """Read the tensors of a part alone: the rest of the model is larger, and not needed."""
    config = read_config(checkpoint)
    assert config is not None, "whoever named the part has read it there"
    files = TensorFiles(local_directory(checkpoint.location, what=_WHAT.format(checkpoint.name)))
    return {
        "pretrained_model_name_or_path": None,
        "config": model_class.config_class(**config[checkpoint.part]),
        "state_dict": files.part(f"{checkpoint.part}."),
    }


def _unreachable(checkpoint: Checkpoint) -> ConfigError:
    if isinstance(checkpoint.location, Path):
        return ConfigError(
            f"codec {checkpoint.name}: no weights could be read from {checkpoint.location / checkpoint.subfolder}; "
            "expected a directory written by save_pretrained, with config.json and .safetensors"
        )
    return unreachable(checkpoint.location, _WHAT.format(checkpoint.name))
