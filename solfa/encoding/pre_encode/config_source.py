"""The collection that a dataset config names, with every recording accounted for."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from solfa.audio.recording import Location, Recording
from solfa.audio.sources.custom_metadata import CustomMetadata
from solfa.audio.sources.dataset_config import DatasetConfigSource, open_dataset_config
from solfa.codecs.protocol import Codec
from solfa.errors import ConfigError
from solfa.files.json_objects import parse_strict
from solfa.files.printable_names import escape_path, unescape_path

REJECTED = "rejected by get_custom_metadata"


class Collected(NamedTuple):
    """A dataset config as its file has it, and the recordings it names."""

    content: dict[str, Any]
    source: DatasetConfigSource

    @property
    def random_crop(self) -> bool:
        """Only an explicit true counts: otherwise recordings are encoded whole."""
        return self.content.get("random_crop") is True

    def notes(self) -> list[str]:
        """List what the config asks for that means something different here."""
        notes = []
        if self.random_crop:
            notes.append(
                "random_crop is true in the dataset config, so only one crop of each recording longer than sample_size "
                "was encoded, always the same one; set it to false to encode whole recordings"
            )
        if self.content.get("drop_last") is True:
            notes.append("drop_last in the dataset config is for training only: the last, smaller batch was encoded")
        return notes

    def heard_by(self, codec: Codec) -> "Collected":
        """Let the user's functions hear recordings as the codec does."""
        return self._replace(source=self.source.heard_by(codec.sample_rate, codec.num_channels))

    def relpath(self, key: str) -> str:
        """Name a recording relative to its collection."""
        prefixes = [escape_path(collection.id) + "/" for collection in self.source.collections]
        # The longest: ids may contain slashes, and one may begin with another.
        prefix = max((prefix for prefix in prefixes if key.startswith(prefix)), key=len, default="")
        return str(unescape_path(key.removeprefix(prefix)))


class _KeepRejected(CustomMetadata):
    """The user's function; what it rejects stays in the list, with the reason."""

    def describe(self, recording: Recording, location: Location) -> Recording | None:
        return super().describe(recording, location) or replace(recording, error=REJECTED)


def open_collected(path: Path, *, trust_code: bool) -> Collected:
    """Read a dataset config and open what it names."""
    source = open_dataset_config(path.absolute(), None, trust_code=trust_code)
    collections = tuple(
        replace(collection, custom_metadata=_KeepRejected(collection.custom_metadata.function))
        if collection.custom_metadata
        else collection
        for collection in source.collections
    )
    return Collected(parse_strict(path.read_bytes()), replace(source, collections=collections))


def expect_recordings(collected: Collected, path: Path) -> None:
    """Refuse a dataset config whose folders hold no audio."""
    if next(without_functions(collected.source).recordings(), None) is None:
        raise ConfigError(f"{path}: expected audio files in the folders it lists, found none")


def without_functions(source: DatasetConfigSource) -> DatasetConfigSource:
    """List the same recordings without calling the user's functions."""
    plain = tuple(replace(collection, custom_metadata=None) for collection in source.collections)
    return replace(source, collections=plain)
