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


class Excerpt(NamedTuple):
    """The part of a recording that the function gets, as a model hears it."""

    location: Location
    info: AudioInfo
    start: int
    """First sample and end (exclusive), at the recording's own rate."""
    stop: int
    sample_rate: int
    """The model's, like the number of channels."""
    num_channels: int
    num_samples: int
    """At the model's rate; if there is less audio, zeros follow."""

    @classmethod
    def whole(cls, location: Location, info: AudioInfo, sample_rate: int = 0, num_channels: int = 0) -> "Excerpt":
        """Take all of a recording; 0 keeps its own rate or channels."""
        rate = sample_rate or info.sample_rate
        num_samples = resampled_span(0, info.num_samples, info.sample_rate, rate)[1]
        return cls(location, info, 0, info.num_samples, rate, num_channels or info.num_channels, num_samples)

    def arguments(self, relpath: str, *, read_audio: bool) -> "tuple[dict[str, Any], Tensor]":
        """Make `info` and `audio` as stable-audio-tools makes them; audio that is not read is zero."""
        import torch  # here, because listing a source takes no torch otherwise

        began = time.monotonic()
        first, last = resampled_span(self.start, self.stop, self.info.sample_rate, self.sample_rate)
        if read_audio:
            span = read_span(self.location, self.info, self.start, self.stop, self.sample_rate, self.num_channels)
            padding = (0, self.num_samples - span.shape[1])
            audio = torch.nn.functional.pad(torch.from_numpy(span), padding).clamp(-1, 1)
        else:
            audio = torch.zeros(1).expand(self.num_channels, self.num_samples)
        described = {
            "path": str(self.location.path),
            "relpath": relpath,
            "timestamps": (self.start / self.info.num_samples, self.stop / self.info.num_samples),
            "seconds_start": math.floor(self.start / self.info.sample_rate),
            "seconds_total": math.ceil(self.info.num_samples / self.info.sample_rate),
            "padding_mask": (torch.arange(self.num_samples) < last - first).float(),
            "sample_rate": self.sample_rate,
            "load_time": time.monotonic() - began,
        }
        return described, audio


@dataclass(frozen=True)
class CustomMetadata:
    """The user's function."""

    function: Callable[[dict[str, Any], "Tensor"], Mapping[str, Any]]

    def describe(self, recording: Recording, relpath: str, excerpt: Excerpt) -> Recording | None:
        """Add the metadata the function returns; None if it rejects the excerpt, with an error if it fails."""
        try:
            info, audio = excerpt.arguments(relpath, read_audio=uses_audio(self.function))
        except AudioError as error:
            return replace(recording, error=str(error))
        try:
            found = dict(self.function({**recording.metadata, **info}, audio))
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
