"""Read a plain folder of .npy files, [T, W] or [W, T], with metadata in `<stem>.json` or a caption in `<stem>.txt`."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from solfa.errors import StoreError
from solfa.files.printable_names import escape_path
from solfa.store.legacy.found_clips import (
    ArrayLayout,
    Axes,
    caption_of,
    checked,
    legacy_outcome,
    load_npy,
    read_bytes,
    read_json_object,
)
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec
from solfa.store.shard_writer import Outcome


def find_arrays(root: Path) -> list[Path]:
    """List all .npy files under a folder, except hidden ones, sorted by name."""
    paths = (path for path in root.rglob("*.npy") if path.is_file())
    visible = (path for path in paths if not any(part.startswith(".") for part in path.relative_to(root).parts))
    return sorted(visible, key=lambda path: path.relative_to(root).parts)


class NpyClips:
    """The arrays of a folder; the key of each is its path without `.npy`."""

    name = "npy folder"

    def __init__(self, root: Path, layout: ArrayLayout | None) -> None:
        self._root, self._layout = root, layout
        self._paths = find_arrays(root)
        self.notes: Sequence[str] = []

    def guess_width(self) -> int | None:
        """Take the axis that the user said is not time; there is no other way to tell."""
        if self._layout is None:
            return None
        for path in self._paths:
            try:
                shape = load_npy(path).shape
            except StoreError:
                continue  # becomes a failed row when it is read
            if len(shape) >= 2:
                return int(shape[-2 if self._layout is ArrayLayout.CHANNELS_FIRST else -1])
        return None

    def outcomes(self, spec: ArraySpec) -> Iterator[Outcome]:
        """Read the arrays."""
        for path in self._paths:
            key = escape_path(path.relative_to(self._root).with_suffix("").as_posix())
            fault: StoreError | None = None
            known: dict[str, Any] = {}
            try:
                known = _beside(path)
            except StoreError as error:
                fault = error
            clip = PlannedClip(id=key, key=key, uri="", caption=caption_of(known), metadata=known)
            if fault is not None:
                yield Outcome(clip, error=str(fault))
            else:
                yield legacy_outcome(clip, partial(self._load, path, spec), spec, known.get("duration"))

    def _load(self, path: Path, spec: ArraySpec) -> np.ndarray[Any, Any]:
        return checked(Axes(self._layout, None).frame_major(load_npy(path), spec, str(path)), spec, str(path))


def _beside(path: Path) -> dict[str, Any]:
    if path.with_suffix(".json").is_file():
        return read_json_object(path.with_suffix(".json"))
    text = path.with_suffix(".txt")
    return {"caption": read_bytes(text).decode(errors="replace").strip()} if text.is_file() else {}
