"""Run the user's own stable-audio-tools function `get_custom_metadata(info, audio) -> dict`."""

import importlib.util
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from solfa.audio.channels import Audio
from solfa.audio.probe import probe
from solfa.audio.reader import read_span
from solfa.audio.recording import AudioInfo, Location, Recording
from solfa.audio.sources.metadata import find_caption
from solfa.errors import AudioError, ConfigError
from solfa.files.json_objects import clean
from solfa.files.printable_names import escape_path

logger = logging.getLogger(__name__)

METADATA_ERROR = "metadata_error"
"""The metadata field that lists values which are not JSON."""


class LazyAudio:
    """The whole recording as float32 `[C, N]`, decoded on first use; numpy and `torch.as_tensor` accept it."""

    def __init__(self, location: Location, info: AudioInfo) -> None:
        self._location = location
        self._info = info

    @cached_property
    def _samples(self) -> Audio:
        info = self._info
        return read_span(self._location, info, 0, info.num_samples, info.sample_rate, info.num_channels)

    @property
    def shape(self) -> tuple[int, int]:
        return self._info.num_channels, self._info.num_samples

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._samples.astype(dtype) if dtype is not None else self._samples

    def __len__(self) -> int:
        return self._info.num_channels

    def __getitem__(self, index: Any) -> Any:
        return self._samples[index]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._samples, name)


@dataclass(frozen=True)
class CustomMetadata:
    """The user's function."""

    function: Callable[[dict[str, Any], LazyAudio], Mapping[str, Any]]

    def describe(self, recording: Recording, location: Location) -> Recording | None:
        """Add the metadata the function returns; None if it rejects the recording, with an error if it fails."""
        try:
            info = probe(location)
        except AudioError as error:
            return replace(recording, error=str(error))
        try:
            found = dict(self.function(_item_info(recording, location, info), LazyAudio(location, info)))
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


def _item_info(recording: Recording, location: Location, info: AudioInfo) -> dict[str, Any]:
    return {
        **recording.metadata,
        "path": str(location.path),
        "relpath": recording.member or recording.uri,
        "timestamps": (0.0, 1.0),
        "seconds_start": 0.0,
        "seconds_total": info.num_samples / info.sample_rate,
        "sample_rate": info.sample_rate,
    }


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
