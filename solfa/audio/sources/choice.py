"""Open any kind of audio collection a user may name."""

import os
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from solfa.audio.file_types import AUDIO_EXTENSIONS, extension, is_audio_name
from solfa.audio.recording import AudioSource
from solfa.audio.sources.bucket import BucketSource, ObjectSource
from solfa.audio.sources.dataset_config import open_dataset_config
from solfa.audio.sources.folder import FileSource, FolderSource
from solfa.audio.sources.folder_walk import is_tar_name
from solfa.audio.sources.location import locate
from solfa.audio.sources.table import TableSource
from solfa.audio.sources.tar import BucketTarSource, TarSource, tar_fault
from solfa.errors import ConfigError
from solfa.files.printable_names import escape_path
from solfa.files.stores.bucket_store import BucketStore
from solfa.files.stores.object_file import ObjectFile
from solfa.files.stores.place import is_url, read_place
from solfa.files.table_rows import TABLE_EXTENSIONS, is_table_name

__all__ = ["expand_numbers", "locate", "open_source"]

_MANIFESTS = ("data.jsonl", "data.jsonl.gz")
_NUMBERS = re.compile(r"\{(\d+)\.\.(\d+)\}")


def open_source(
    source: str | Path,
    *,
    audio_root: Path | None = None,
    trust_code: bool = False,
    on_listed: Callable[[int], None] = lambda objects: None,
) -> AudioSource:
    """Open a folder, an audio file, a table, a tar (or several: `shard-{000..031}.tar`), or a dataset config.

    A folder, an audio file and tars may be in an object store: `s3://bucket/audio`. While such a folder is listed,
    `on_listed` is told how many objects were listed so far.

    The Python file that a dataset config may name as its `custom_metadata_module` runs only with `trust_code`.

    >>> from solfa.audio import open_source
    >>> [recording.key for recording in open_source("audio/voice").recordings()]
    ['hello.wav', 'story.ogg']
    """
    if audio_root is not None and not audio_root.is_dir():
        raise ConfigError(f"`audio_root`: expected a folder, found {escape_path(audio_root)}")
    if not str(source):
        raise ConfigError("`source`: expected a path, found nothing; is a variable unset?")
    if is_url(source):
        place = read_place(source)
        if isinstance(place, BucketStore):
            return _open_in_bucket(place, audio_root, on_listed)
        source = place
    path = Path(source)
    if _NUMBERS.search(str(source)) and not path.exists():
        return _open_tars([Path(name) for name in expand_numbers(str(source))])
    if path.is_dir():
        manifest = _manifest_in(path)
        return FolderSource(path) if manifest is None else TableSource(manifest, audio_root)
    if not path.exists():
        raise ConfigError(f"{escape_path(path)}: no such file or folder")
    if is_table_name(path.name):
        return TableSource(path, audio_root)
    if is_tar_name(path.name):
        return _open_tars([path])
    if extension(path.name) == ".json":
        return open_dataset_config(path, audio_root, trust_code=trust_code, on_listed=on_listed)
    if extension(path.name) in AUDIO_EXTENSIONS:
        return FileSource(path)
    raise ConfigError(
        f"{escape_path(path)}: expected a folder, an audio file ({' '.join(sorted(AUDIO_EXTENSIONS))}), "
        f"a table ({' '.join(TABLE_EXTENSIONS)}), a .tar, or a dataset config (.json)"
    )


def _open_in_bucket(place: BucketStore, audio_root: Path | None, on_listed: Callable[[int], None]) -> AudioSource:
    """Open a prefix of an object store, or one audio file or tar of it, or several: `shard-{000..031}.tar`."""
    if audio_root is not None:
        raise ConfigError(f"`audio_root`: is for tables, and {place} is a place of an object store; leave it out")
    parent, _, name = place.url.rpartition("/")
    root = BucketStore(parent)
    if parent.count("/") < 2 or not (is_tar_name(name) or extension(name) or _NUMBERS.search(name)):
        return BucketSource(place, on_listed)
    names = expand_numbers(name)
    if is_tar_name(name):
        for tar in names:
            fault = tar_fault(ObjectFile(root, tar))
            if fault is not None:
                raise ConfigError(f"{root}/{tar}: {fault}")
        return BucketTarSource(root, tuple(names))
    if root.head(name) is None:
        return BucketSource(place, on_listed)
    if is_audio_name(name):
        return ObjectSource(root, name)
    raise ConfigError(
        f"{place}: expected a prefix, an audio file or a .tar in an object store; copy tables and dataset configs here"
    )


def _manifest_in(folder: Path) -> Path | None:
    """Find the manifest in a folder that holds nothing else, like AudioCraft's `egs/NAME`; None for others."""
    with os.scandir(folder) as entries:
        names = {entry.name for entry in islice(entries, 2)}
    return folder / names.pop() if len(names) == 1 and names <= set(_MANIFESTS) else None


def expand_numbers(pattern: str) -> list[str]:
    """Expand every range such as `{000..031}`, keeping leading zeros."""
    found = _NUMBERS.search(pattern)
    if found is None:
        return [pattern]
    first, last = found.groups()
    numbers = range(int(first), int(last) + 1)
    before, after = pattern[: found.start()], pattern[found.end() :]
    return [name for number in numbers for name in expand_numbers(f"{before}{number:0{len(first)}d}{after}")]


def _open_tars(paths: list[Path]) -> TarSource:
    for path in paths:
        fault = tar_fault(path)
        if fault is not None:
            raise ConfigError(f"{escape_path(path)}: {fault}")
    return TarSource(
        Path(os.path.commonpath([path.absolute().parent for path in paths])), tuple(path.absolute() for path in paths)
    )
