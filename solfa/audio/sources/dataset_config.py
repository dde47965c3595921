"""The dataset JSON of stable-audio-tools: folders (`audio_dir`) and WebDataset tars, here (`wds`) or in buckets (`s3`).

A `custom_metadata_module` is the user's own Python, and runs only if the user trusts it: the config may come from
somebody else. It is called once per recording, while the source is listed, with what stable-audio-tools passes it for a
recording that it need not crop: `info` (path, relpath, sample_rate, seconds_total, ...) and `audio`, a tensor at the
model's rate and channels, which is decoded only if the function uses it.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationInfo, field_validator

from solfa.audio.probe import probe
from solfa.audio.recording import AudioSource, Recording
from solfa.audio.sources.bucket import BucketSource
from solfa.audio.sources.custom_metadata import CustomMetadata, Excerpt, load_custom_metadata
from solfa.audio.sources.folder import FolderSource
from solfa.audio.sources.folder_walk import is_tar_name
from solfa.audio.sources.location import locate_recording, uri_below
from solfa.audio.sources.tar import BucketTarSource, TarSource, tar_fault
from solfa.config import Config, parse_config
from solfa.errors import AudioError, ConfigError
from solfa.files.json_objects import parse_strict
from solfa.files.printable_names import escape_path, unescape_path
from solfa.files.stores.bucket_store import BucketStore
from solfa.files.stores.object_file import ObjectFile
from solfa.files.stores.place import Place, is_url, read_place


class UntrustedCodeError(ConfigError):
    """A dataset config names code, and nobody said that it may run."""

    def __init__(self, found: str) -> None:
        super().__init__(f"{found}; read it, and if you trust it, pass `trust_code=True`")
        self.found = found
        """What was found, without what to do, for those who have no `trust_code`."""


class DatasetEntry(Config):
    """One collection of a dataset config."""

    id: str
    path: str | None = None
    s3_path: str | None = None
    profile: str | None = None
    custom_metadata_module: str | None = None


class DatasetConfig(Config):
    """A dataset config; what only concerns training, as most of its settings do, changes nothing here."""

    dataset_type: Literal["audio_dir", "wds", "s3"]
    datasets: tuple[DatasetEntry, ...]
    random_crop: bool = True
    drop_last: bool = True
    epoch_steps: int | None = None
    resampled_shards: bool | None = None
    latent_crop_length: int | None = None
    pre_encoded: bool = False
    remove_silence: bool = False
    silence_threshold: tuple[float, ...] = ()
    max_silence_duration: float | None = None
    volume_norm: bool = False
    volume_norm_param: tuple[float, ...] = ()

    @field_validator("remove_silence", "volume_norm")
    @classmethod
    def _leave_audio_alone(cls, value: bool, field: ValidationInfo) -> bool:
        if value:
            raise ValueError(
                "expected false, because audio is encoded as it is; change the files first, and leave "
                f"{field.field_name} out"
            )
        return value


@dataclass(frozen=True)
class Collection:
    """A named part of a dataset."""

    id: str
    source: AudioSource
    custom_metadata: CustomMetadata | None


@dataclass(frozen=True)
class DatasetConfigSource:
    """The recordings of all collections; each key starts with the collection's id."""

    root: Path
    collections: tuple[Collection, ...]
    sample_rate: int = 0
    """At which the functions hear recordings, like the number of channels; 0 means as they are."""
    num_channels: int = 0

    def recordings(self) -> Iterator[Recording]:
        for collection in self.collections:
            base = collection.source.root
            for recording in collection.source.recordings():
                described = self._describe(collection, recording, base)
                if described is not None:
                    uri = _uri(self.root, base, recording)
                    key = f"{escape_path(collection.id)}/{recording.key}"
                    yield replace(described, key=key, uri=uri)

    def heard_by(self, sample_rate: int, num_channels: int) -> "DatasetConfigSource":
        """Let the functions hear recordings at a model's rate and channels."""
        return replace(self, sample_rate=sample_rate, num_channels=num_channels)

    def _describe(self, collection: Collection, recording: Recording, base: Place) -> Recording | None:
        if collection.custom_metadata is None or recording.error is not None:
            return recording
        location = locate_recording(base, recording)
        try:
            excerpt = Excerpt.whole(location, probe(location), self.sample_rate, self.num_channels)
        except AudioError as error:
            return replace(recording, error=str(error))
        return collection.custom_metadata.describe(recording, recording.member or recording.uri, excerpt)


def _uri(root: Path, base: Place, recording: Recording) -> str:
    """Say where a recording of a collection is, as seen from the config; in an object store, by its URL."""
    if isinstance(base, Path):
        return uri_below(root, base / unescape_path(recording.uri))
    return f"{base}/{recording.uri}"


def heard_by(source: AudioSource, sample_rate: int, num_channels: int) -> AudioSource:
    """Let the functions of a dataset config hear recordings as a model does; other sources stay as they are."""
    return source.heard_by(sample_rate, num_channels) if isinstance(source, DatasetConfigSource) else source


def open_dataset_config(
    path: Path,
    audio_root: Path | None,
    *,
    trust_code: bool = False,
    on_listed: Callable[[int], None] = lambda objects: None,
) -> DatasetConfigSource:
    """Read a dataset config; relative paths are tried below `audio_root`, the config's folder, and here."""
    where = escape_path(path)
    try:
        values: dict[str, Any] = parse_strict(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{where}: expected a stable-audio-tools dataset config, found: {error}") from None
    values.setdefault("datasets", ())
    if values.get("dataset_type") == "pre_encoded" or values.get("pre_encoded") is True:
        raise ConfigError(f"{where}: contains latents that are already encoded; load them with `solfa import`")
    config = parse_config(DatasetConfig, values, where)
    if not config.datasets:
        raise ConfigError(f"{where}: datasets: expected at least one entry with an id and a path, found none")
    ids = [entry.id for entry in config.datasets]
    if len(set(ids)) < len(ids):
        raise ConfigError(f"{where}: datasets: expected unique ids, found {', '.join(ids)}")
    bases = [base for base in (audio_root, path.parent, Path()) if base is not None]
    collections = [
        _open_collection(entry, config.dataset_type, bases, where, trust_code, on_listed) for entry in config.datasets
    ]
    return DatasetConfigSource(audio_root or path.parent, tuple(collections))


def _open_collection(
    entry: DatasetEntry,
    dataset_type: str,
    bases: list[Path],
    where: str,
    trust_code: bool,
    on_listed: Callable[[int], None],
) -> Collection:
    here = f"{where}: dataset {entry.id!r}"
    custom = _find(entry.custom_metadata_module, bases, here) if entry.custom_metadata_module else None
    if custom is not None and not trust_code:
        raise UntrustedCodeError(
            f"{here}: its custom_metadata_module {escape_path(custom.absolute())} is code that would run here"
        )
    custom_metadata = None if custom is None else load_custom_metadata(custom, here)
    url = entry.s3_path or entry.path
    if url is None:
        raise ConfigError(f"{here}: expected a path or an s3_path, found neither; give it one")
    if is_url(url):
        return Collection(entry.id, _open_bucket(entry, url, here, on_listed), custom_metadata)
    if entry.s3_path is not None or dataset_type == "s3":
        raise ConfigError(f"{here}: expected an s3_path such as s3://bucket/prefix, found {url!r}")
    path = _find(url, bases, here)
    if path.is_dir():
        return Collection(entry.id, FolderSource(path), custom_metadata)
    if dataset_type == "wds" and is_tar_name(path.name):
        fault = tar_fault(path)
        if fault is not None:
            raise ConfigError(f"{here}: {escape_path(path)} {fault}")
        return Collection(entry.id, TarSource(path.parent, (path,)), custom_metadata)
    expected = "a folder or a .tar" if dataset_type == "wds" else "a folder"
    raise ConfigError(f"{here}: expected {expected}, found the file {escape_path(path)}")


def _open_bucket(entry: DatasetEntry, url: str, here: str, on_listed: Callable[[int], None]) -> AudioSource:
    place = read_place(url)
    if isinstance(place, Path):
        return FolderSource(place)
    if entry.profile not in (None, os.environ.get("AWS_PROFILE")):
        raise ConfigError(f"{here}: its credentials are those of a profile; set AWS_PROFILE={entry.profile}")
    if is_tar_name(place.name):
        folder = BucketStore(place.url.rpartition("/")[0])
        fault = tar_fault(ObjectFile(folder, place.name))
        if fault is not None:
            raise ConfigError(f"{here}: {place} {fault}")
        return BucketTarSource(folder, (place.name,))
    return BucketSource(place, on_listed)


def _find(name: str, bases: list[Path], here: str) -> Path:
    for base in bases:
        if (base / name).exists():
            return base / name
    raise ConfigError(f"{here}: no such file or folder: {escape_path(name)}")
