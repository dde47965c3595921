"""Read the output of stable-audio-tools' `pre_encode.py`: rank folders of [C, N] arrays with JSON next to them.

Every clip was padded to the same length; its `padding_mask` says which frames are sound. Tokens of an `rvq` bottleneck
were saved the other way round, [N, Q], with a mask of Q entries that says nothing about frames.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    read_json_object,
)
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec
from solfa.store.shard_writer import Outcome

_NOT_METADATA = frozenset({"path", "relpath", "padding_mask", "sample_rate", "audio_channels", "solfa"})
"""What the dataset has columns for; the rest of an item's JSON is kept as metadata."""


class StableAudioClips:
    """The items of all ranks, in the order of their 13-digit ids."""

    name = "stable-audio-tools output"

    def __init__(self, root: Path, layout: ArrayLayout | None) -> None:
        ranks = sorted((path for path in root.iterdir() if path.name.isdecimal() and path.is_dir()), key=_number)
        names = {path.with_suffix("") for rank in ranks for path in rank.iterdir() if path.suffix in (".npy", ".json")}
        self._items = sorted((path for path in names if path.name.isdecimal()), key=lambda path: path.parts[-2:])
        if not self._items:
            raise StoreError(
                f"{root}: expected rank folders with arrays next to details.json (0/0000000000000.npy), found none"
            )
        foreign = len(names) - len(self._items)
        self.notes: Sequence[str] = [f"{foreign} files without a 13-digit name were left out"] if foreign else []
        self._layout = layout

    def guess_width(self) -> int | None:
        """Take the first axis of latents; tokens can be either way round, and their masks fit both."""
        for item in self._items:
            try:
                array = load_npy(item.with_suffix(".npy"))
            except StoreError:
                continue  # becomes a failed row when it is read
            if array.ndim == 2 and (self._layout is not None or array.dtype.kind == "f"):
                return int(array.shape[1 if self._layout is ArrayLayout.FRAMES_FIRST else 0])
        return None

    def outcomes(self, spec: ArraySpec) -> Iterator[Outcome]:
        """Read the items; if a recording was drawn twice, both are kept, the second under its item number."""
        seen: set[str] = set()
        for item in self._items:
            try:
                facts = read_json_object(item.with_suffix(".json"))
            except StoreError as error:
                clip = PlannedClip(id=item.name, key=item.name, uri="")
                yield Outcome(clip, error=str(error))
                continue
            key = _key(facts, item.name)
            clip_id = key if key not in seen else f"{key}#{item.name}"
            seen.add(key)
            metadata = {name: value for name, value in facts.items() if name not in _NOT_METADATA}
            clip = PlannedClip(id=clip_id, key=key, uri=key, caption=caption_of(metadata), metadata=metadata)
            yield legacy_outcome(clip, partial(self._load, item, facts, spec), spec, facts.get("duration"))

    def _load(self, item: Path, facts: Mapping[str, Any], spec: ArraySpec) -> np.ndarray[Any, Any]:
        path = item.with_suffix(".npy")
        rate = facts.get("sample_rate", spec.sample_rate)
        if rate != spec.sample_rate:
            raise StoreError(f"{path}: made at {rate} Hz, the codec has {spec.sample_rate} Hz")
        # Square tokens may be either way round, because of the [N, Q] ones.
        usual = None if spec.kind == "codes" else ArrayLayout.CHANNELS_FIRST
        array = Axes(self._layout, usual).frame_major(load_npy(path), spec, str(path))
        num_frames = valid_frames(_mask(facts), len(array), spec.width, str(path))
        return checked(array[:num_frames], spec, str(path))


def valid_frames(mask: Sequence[Any] | None, num_frames: int, width: int, where: str) -> int:
    """Count the frames up to the last valid one."""
    if mask is None:
        return num_frames
    ones = [index for index, value in enumerate(mask) if value]
    if len(mask) == num_frames:
        return ones[-1] + 1 if ones else 0
    if len(mask) != width:
        raise StoreError(f"{where}: its padding_mask has {len(mask)} entries for {num_frames} frames")
    if len(ones) < width:
        raise StoreError(
            f"{where}: padded, but its padding_mask counts {width} codebooks instead of {num_frames} frames, "
            "so where the sound ends is lost; encode this recording again"
        )
    return num_frames


def _mask(facts: Mapping[str, Any]) -> Sequence[Any] | None:
    mask = facts.get("padding_mask")
    if isinstance(mask, list) and len(mask) == 1 and isinstance(mask[0], list):
        return mask[0]
    return mask if isinstance(mask, list) else None


def _key(facts: Mapping[str, Any], name: str) -> str:
    for field in ("relpath", "__key__", "path"):
        value = facts.get(field)
        if isinstance(value, str) and value:
            return escape_path(value)
    return name


def _number(path: Path) -> int:
    return int(path.name)
