"""Read a MusicCaps token folder: `{ytid}.npy`, [K, T] or [1, K, T], and `pre_encoded_metadata.json`.

The JSON file maps each id to a file name, or to an object with `file` (or `path`) and whatever else is known.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from solfa.errors import StoreError
from solfa.files.printable_names import escape_path
from solfa.store.export.musiccaps import AUDIO_FOLDER, METADATA
from solfa.store.legacy.found_clips import (
    ArrayLayout,
    Axes,
    caption_of,
    checked,
    legacy_outcome,
    load_npy,
    read_json_object,
)
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec
from solfa.store.shard_writer import Outcome

_FILE_FIELDS = ("file", "path", "filename", "file_name", "npy_path")


def metadata_path(root: Path) -> Path | None:
    """Find the file that maps ids to arrays: in the folder, next to the arrays, or above them."""
    candidates = [root / METADATA, root / AUDIO_FOLDER / METADATA]
    if root.name == AUDIO_FOLDER:
        candidates.append(root.parent / METADATA)
    return next((path for path in candidates if path.is_file()), None)


def token_files(root: Path, metadata: Path) -> list[Path]:
    """List the files that such a folder consists of."""
    folders = {folder.resolve() for folder in _folders(root, metadata) if folder.is_dir()}
    return [metadata, *sorted(path for folder in folders for path in folder.glob("*.npy"))]


def _folders(root: Path, metadata: Path) -> list[Path]:
    return [root / AUDIO_FOLDER, root, metadata.parent]


class MusicCapsClips:
    """The ids of the JSON file, in its order."""

    name = "MusicCaps tokens"

    def __init__(self, root: Path, metadata: Path, layout: ArrayLayout | None) -> None:
        self._folders = _folders(root, metadata)
        self._entries = read_json_object(metadata)
        self._axes = Axes(layout, ArrayLayout.CHANNELS_FIRST)
        self._layout = layout or ArrayLayout.CHANNELS_FIRST
        named = {path.resolve() for entry in self._entries.values() if (path := self._find(entry)) is not None}
        arrays = {path.resolve() for folder in self._folders if folder.is_dir() for path in folder.glob("*.npy")}
        extra = sorted(path.name for path in arrays - named)
        self.notes: Sequence[str] = (
            [f"{len(extra)} .npy files are not listed in {metadata.name} and were left out, first {extra[0]}"]
            if extra
            else []
        )

    def guess_width(self) -> int | None:
        """Take the length of the codebook axis."""
        axis = -2 if self._layout is ArrayLayout.CHANNELS_FIRST else -1
        for entry in self._entries.values():
            path = self._find(entry)
            try:
                shape = load_npy(path).shape if path else ()
            except StoreError:
                continue  # becomes a failed row when it is read
            if len(shape) >= 2:
                return int(shape[axis])
        return None

    def outcomes(self, spec: ArraySpec) -> Iterator[Outcome]:
        """Read the clips; an id whose file is missing is a failed clip."""
        for ytid, entry in self._entries.items():
            known = {key: value for key, value in entry.items() if key not in _FILE_FIELDS} if _is_object(entry) else {}
            key = escape_path(ytid)
            clip = PlannedClip(id=key, key=key, uri="", caption=caption_of(known), metadata=known)
            yield legacy_outcome(clip, partial(self._load, ytid, entry, spec), spec, known.get("duration"))

    def _load(self, ytid: str, entry: object, spec: ArraySpec) -> np.ndarray[Any, Any]:
        path = self._find(entry)
        if path is None:
            raise StoreError(f"{ytid}: its file {_file_name(entry)!r} is missing in {self._folders[0]}")
        return checked(self._axes.frame_major(load_npy(path), spec, str(path)), spec, str(path))

    def _find(self, entry: object) -> Path | None:
        """Look up a file in the folder; of a path that is absolute or leads out of it, only the name counts."""
        text = _file_name(entry)
        if not text or "\0" in text:
            return None
        relative = PurePosixPath(text.replace("\\", "/"))
        inside = not relative.is_absolute() and ".." not in relative.parts
        names = [str(relative), relative.name] if inside else [relative.name]
        candidates = (folder / name for name in names if name for folder in self._folders)
        return next((path for path in candidates if path.is_file()), None)


def _is_object(entry: object) -> bool:
    return isinstance(entry, dict)


def _file_name(entry: object) -> str | None:
    if isinstance(entry, dict):
        entry = next((entry[field] for field in _FILE_FIELDS if field in entry), None)
    return entry if isinstance(entry, str) else None
