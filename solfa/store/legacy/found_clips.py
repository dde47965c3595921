"""What every reader of an old layout returns: clips whose arrays are loaded, checked and transposed on demand."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from solfa.errors import StoreError
from solfa.files.json_objects import parse_object
from solfa.store.export.npy_bytes import parse_npy
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec
from solfa.store.shard_writer import Outcome

MAX_ARRAY_BYTES = 1 << 33
"""Larger files are not read into memory."""


class ArrayLayout(StrEnum):
    """Which axis of an array in an old layout is time."""

    FRAMES_FIRST = "frames-first"
    """[T, W]"""
    CHANNELS_FIRST = "channels-first"
    """[W, T]"""


class LegacyClips(Protocol):
    """The clips of a folder in an old layout."""

    @property
    def name(self) -> str:
        """The name of the layout, for people."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What was found but left out."""
        ...

    def guess_width(self) -> int | None:
        """Take the width from the first array that loads, if the layout says which axis is time."""
        ...

    def outcomes(self, spec: ArraySpec) -> Iterator[Outcome]:
        """Read the clips, in an order that does not depend on the file system."""
        ...


@dataclass(frozen=True, slots=True)
class Axes:
    """How to tell the two axes of an array apart: by width, or else by what the user or the layout says."""

    told: ArrayLayout | None
    usual: ArrayLayout | None

    def frame_major(self, array: np.ndarray[Any, Any], spec: ArraySpec, where: str) -> np.ndarray[Any, Any]:
        """Turn [T, W], [W, T] or either with a leading axis of 1 into [T, W]."""
        if array.ndim == 3 and len(array) == 1:
            array = array[0]
        expected = f"[{spec.width}, T] or [T, {spec.width}]"
        if array.ndim != 2 or spec.width not in array.shape:
            raise StoreError(f"{where}: expected an array {expected}, found {list(array.shape)}")
        if array.shape[0] != array.shape[1] and self.told is None:
            return array.T if array.shape[0] == spec.width else array
        layout = self.told or self.usual
        if layout is None:
            raise StoreError(f"{where}: either axis of {list(array.shape)} could be time; say which with `layout`")
        turned = array.T if layout is ArrayLayout.CHANNELS_FIRST else array
        if turned.shape[1] != spec.width:
            raise StoreError(f"{where}: expected {layout} arrays of width {spec.width}, found {list(array.shape)}")
        return turned


def read_bytes(path: Path) -> bytes:
    """Read one file of a clip; an error is one sentence."""
    try:
        size = path.stat().st_size
        if size > MAX_ARRAY_BYTES:
            raise StoreError(f"{path}: {size} bytes are too many for one clip")
        return path.read_bytes()
    except FileNotFoundError:
        raise StoreError(f"{path}: missing") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror or error})") from None


def load_npy(path: Path) -> np.ndarray[Any, Any]:
    """Read one .npy file."""
    return parse_npy(read_bytes(path), str(path))


def checked(array: np.ndarray[Any, Any], spec: ArraySpec, where: str) -> np.ndarray[Any, Any]:
    """Convert an array [T, W] to the dataset's dtype, refusing values that do not fit."""
    if spec.codebook_size is not None:
        if array.dtype.kind not in "ui":
            raise StoreError(f"{where}: expected integer codes, found {array.dtype}")
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        if low < 0 or high >= spec.codebook_size:
            raise StoreError(f"{where}: expected codes from 0 to {spec.codebook_size - 1}, found {low} to {high}")
    elif array.dtype.kind != "f":
        raise StoreError(f"{where}: expected latents in floating point, found {array.dtype}")
    with np.errstate(over="ignore"):
        stored = np.ascontiguousarray(array, spec.numpy_dtype)
    if spec.kind == "latents" and not np.isfinite(stored).all():
        raise StoreError(f"{where}: latents are not finite, or too large for {spec.dtype}")
    return stored


def read_json_object(path: Path) -> dict[str, Any]:
    """Read the JSON object next to an array."""
    try:
        return parse_object(read_bytes(path))
    except ValueError as error:
        raise StoreError(f"{path}: not a JSON object ({error})") from None


def caption_of(metadata: Mapping[str, Any]) -> str | None:
    """Find the caption under one of its usual names."""
    found = (metadata.get(name) for name in ("caption", "prompt", "text"))
    return next((text for text in found if isinstance(text, str)), None)


def legacy_outcome(
    clip: PlannedClip, load: Callable[[], np.ndarray[Any, Any]], spec: ArraySpec, seconds: object = None
) -> Outcome:
    """Load one clip; if anything is wrong with it, that becomes the reason for its failure.

    `seconds` is the exact length, if the layout has one; otherwise the clip ends with its last frame.
    """
    try:
        array = load()
        if not len(array):
            raise StoreError("the array holds no frame")
    except StoreError as error:
        return Outcome(clip, error=str(error))
    num_samples = len(array) * spec.hop_length
    if isinstance(seconds, int | float) and 0 < seconds < 1e9:
        exact = round(seconds * spec.sample_rate)
        num_samples = exact if num_samples - 2 * spec.hop_length < exact <= num_samples else num_samples
    return Outcome(replace(clip, num_samples=num_samples), array, num_samples)
