"""The collection that a dataset config names, with every recording accounted for."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from solfa.audio.sources.dataset_config import Collection, DatasetConfigSource, open_dataset_config
from solfa.errors import ConfigError
from solfa.files.json_objects import parse_strict
from solfa.files.printable_names import escape_path, unescape_path


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

    def collection_of(self, key: str) -> Collection:
        """Find the collection of a recording."""
        named = [one for one in self.source.collections if key.startswith(_prefix(one))]
        # The longest: ids may contain slashes, and one may begin with another.
        return max(named, key=lambda collection: len(collection.id))

    def relpath(self, key: str) -> str:
        """Name a recording relative to its collection."""
        return str(unescape_path(key.removeprefix(_prefix(self.collection_of(key)))))


def _prefix(collection: Collection) -> str:
    return escape_path(collection.id) + "/"


def open_collected(path: Path, *, trust_code: bool) -> Collected:
    """Read a dataset config and open what it names."""
    source = open_dataset_config(path.absolute(), None, trust_code=trust_code)
    return Collected(parse_strict(path.read_bytes()), source)


def expect_recordings(collected: Collected, path: Path) -> None:
    """Refuse a dataset config whose folders hold no audio."""
    if next(without_functions(collected.source).recordings(), None) is None:
        raise ConfigError(f"{path}: expected audio files in the folders it lists, found none")


def without_functions(source: DatasetConfigSource) -> DatasetConfigSource:
    """List the same recordings without calling the user's functions."""
    plain = tuple(replace(collection, custom_metadata=None) for collection in source.collections)
    return replace(source, collections=plain)
