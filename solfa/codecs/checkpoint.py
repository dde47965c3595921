"""Checkpoints in the `save_pretrained` layout, local or on the Hub, read by the library that wrote them."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from solfa.codecs.inference import Precision
from solfa.codecs.spec import CodecSpec
from solfa.errors import ConfigError
from solfa.files.json_objects import read_object
from solfa.pretrained.tensors import check_accounted


@dataclass(frozen=True)
class Checkpoint:
    """Where the weights of a codec are, and how they are to be run."""

    name: str
    """How a person calls it."""
    head: str
    """The spec without its options, valid in any working directory."""
    location: str | Path
    """A local directory (Path) or a Hub id (str)."""
    device: str = "cpu"
    precision: Precision = "fp32"
    subfolder: str = ""
    fixed_options: Mapping[str, str] = field(default_factory=dict)
    """Options that say where the weights are, and so belong to every spec."""

    def spec(self, options: Mapping[str, int | bool]) -> str:
        """Write the text that loads the same codec with `options`."""
        texts = dict(self.fixed_options)
        texts |= {key: str(value).lower() for key, value in options.items()}
        if self.precision != "fp32":
            texts["precision"] = self.precision
        return str(CodecSpec(self.head, texts))


def read_config(checkpoint: Checkpoint) -> Mapping[str, Any] | None:
    """Read `config.json`; None when there is none in this place."""
    path = _local_config(checkpoint) if isinstance(checkpoint.location, Path) else _hub_config(checkpoint)
    if path is None:
        return None
    return read_object(path, ConfigError, f"codec {checkpoint.name}: {path}")


def _local_config(checkpoint: Checkpoint) -> Path | None:
    path = Path(checkpoint.location, checkpoint.subfolder, "config.json")
    return path if path.is_file() else None


def _hub_config(checkpoint: Checkpoint) -> Path | None:
    from transformers.utils.hub import cached_file

    try:
        path = cached_file(
            checkpoint.location,
            "config.json",
            subfolder=checkpoint.subfolder,
            # Offline, a file that does not exist and one that was never downloaded look the same. The root's may be
            # absent (a pipeline has none), the subfolder's is the last that is looked for.
            _raise_exceptions_for_missing_entries=bool(checkpoint.subfolder),
        )
    except OSError as error:
        raise _unreachable(checkpoint) from error
    return None if path is None else Path(path)


def load_pretrained(checkpoint: Checkpoint, model_class: Any) -> Any:
    """Call the library's `from_pretrained` in float32 and refuse weights that do not fit, by name."""
    try:
        with _quiet(model_class, bars=not isinstance(checkpoint.location, Path)):
            model, info = model_class.from_pretrained(
                checkpoint.location,
                **({"subfolder": checkpoint.subfolder} if checkpoint.subfolder else {}),
                # Explicit, because the libraries otherwise keep the dtype of the file.
                torch_dtype=torch.float32,
                # Listed in `info` and refused below, instead of a report that spans a page.
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
    except OSError as error:
        raise _unreachable(checkpoint) from error
    check_accounted(
        info["missing_keys"],
        info["unexpected_keys"],
        [f"{name} {list(found)} instead of {list(wanted)}" for name, found, wanted in info["mismatched_keys"]],
        f"codec {checkpoint.name}",
    )
    return model


def _unreachable(checkpoint: Checkpoint) -> ConfigError:
    if isinstance(checkpoint.location, Path):
        return ConfigError(
            f"codec {checkpoint.name}: no weights could be read from {checkpoint.location / checkpoint.subfolder}; "
            "expected a directory as save_pretrained writes it, with config.json and .safetensors"
        )
    return ConfigError(
        f"codec {checkpoint.name}: the Hub model {checkpoint.location!r} is neither in the local cache nor reachable; "
        "connect to the network once, or pass a local directory instead of the name"
    )


@contextmanager
def _quiet(model_class: Any, bars: bool) -> Iterator[None]:
    """Silence the library's own report (what matters of it becomes one sentence), and its bars unless it downloads."""
    library = model_class.__module__.partition(".")[0]
    logging = import_module(f"{library}.utils.logging")
    verbosity, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if not bars:
        logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            # diffusers builds its layers with the weight norm that torch deprecates.
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()
