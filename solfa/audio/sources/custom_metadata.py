"""Run the user's own stable-audio-tools function `get_custom_metadata(info, audio) -> dict`."""

import dis
import importlib.util
import inspect
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from solfa.audio.probe import probe
from solfa.audio.reader import read_span
from solfa.audio.recording import AudioInfo, Location, Recording
from solfa.audio.resampler import resampled_span
from solfa.audio.sources.metadata import find_caption
from solfa.errors import AudioError, ConfigError
from solfa.files.json_objects import clean
from solfa.files.printable_names import escape_path

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

METADATA_ERROR = "metadata_error"
"""The metadata field that lists values which are not JSON."""


class Hearing(NamedTuple):
    """How the model hears recordings; zeros mean as they are."""

    sample_rate: int = 0
    num_channels: int = 0


AS_IT_IS = Hearing()


@dataclass(frozen=True)
class CustomMetadata:
    """The user's function."""

    function: Callable[[dict[str, Any], "Tensor"], Mapping[str, Any]]
    hearing: Hearing = AS_IT_IS

    def describe(self, recording: Recording, location: Location) -> Recording | None:
        """Add the metadata the function returns; None if it rejects the recording, with an error if it fails."""
        try:
            info = probe(location)
        except AudioError as error:
            return replace(recording, error=str(error))
        try:
            found = dict(self.function(*self._arguments(recording, location, info)))
        except AudioError as error:
            return replace(recording, error=str(error))
        # The function is not ours: whatever it raises counts as a failure of this one recording.
        except Exception as error:
            return replace(recording, error=f"get_custom_metadata failed: {type(error).__name__}: {error}")
        if found.pop("__reject__", False):
            logger.info("%s: rejected by get_custom_metadata", recording.key)
            return None
        if "__audio__" in found:
            return replace(recording, error="get_custom_metadata returned __audio__; change the audio files instead")
        metadata = {**recording.metadata, **_json_values(found)}
        return replace(recording, metadata=metadata, caption=find_caption(metadata) or recording.caption)

    def _arguments(self, recording: Recording, location: Location, info: AudioInfo) -> "tuple[dict[str, Any], Tensor]":
        """Make what stable-audio-tools passes, of the whole recording instead of a crop."""
        import torch  # here, because listing a source takes no torch otherwise

        began = time.monotonic()
        sample_rate = self.hearing.sample_rate or info.sample_rate
        num_channels = self.hearing.num_channels or info.num_channels
        num_samples = resampled_span(0, info.num_samples, info.sample_rate, sample_rate)[1]
        if uses_audio(self.function):
            span = read_span(location, info, 0, info.num_samples, sample_rate, num_channels)
            audio = torch.from_numpy(span).clamp(-1, 1)
        else:
            audio = torch.zeros(1).expand(num_channels, num_samples)
        described = {
            **recording.metadata,
            "path": str(location.path),
            "relpath": recording.member or recording.uri,
            "timestamps": (0.0, 1.0),
            "seconds_start": 0,
            "seconds_total": math.ceil(info.num_samples / info.sample_rate),
            "padding_mask": torch.ones(num_samples),
            "sample_rate": sample_rate,
            "load_time": time.monotonic() - began,
        }
        return described, audio


def uses_audio(function: Callable[..., Any]) -> bool:
    """Say whether a function may look at its second argument; most do not, and decoding takes time.

    Only a plain function that never reads that name, in any way Python has, surely does not.
    """
    code = getattr(function, "__code__", None)
    if code is None or code.co_argcount != 2 or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return True
    name = code.co_varnames[1]
    if name in code.co_cellvars or {"locals", "vars", "eval", "exec", "dir"} & set(code.co_names):
        return True
    # Later Pythons read two names with one instruction, whose argument is then a pair.
    reads = (instruction.argval for instruction in dis.get_instructions(code) if "FAST" in instruction.opname)
    return any(name in (names if isinstance(names, tuple) else (names,)) for names in reads)


def _json_values(found: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    refused = []
    for name, value in found.items():
        # Numbers and arrays of numpy and torch can convert themselves to plain values.
        plain = value.tolist() if hasattr(value, "tolist") else value
        if _is_json(plain):
            values[str(name)] = clean(plain)
        else:
            refused.append(f"{name} is a {type(value).__name__}, not a JSON value")
    return values | ({METADATA_ERROR: "; ".join(refused)} if refused else {})


def _is_json(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_json(item) for item in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    return value is None or isinstance(value, str | int | float | bool)


def load_custom_metadata(path: Path, where: str) -> CustomMetadata:
    """Load the Python file that a config names."""
    spec = importlib.util.spec_from_file_location("solfa_custom_metadata", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{where}: expected a Python file as custom_metadata_module, found {escape_path(path)}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{where}: {escape_path(path)} failed to load: {type(error).__name__}: {error}") from error
    function = getattr(module, "get_custom_metadata", None)
    if not callable(function):
        raise ConfigError(f"{where}: expected {escape_path(path)} to define get_custom_metadata(info, audio)")
    return CustomMetadata(function)
