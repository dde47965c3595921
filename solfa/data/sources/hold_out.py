"""Hold some recordings out of training to validate on: always the same ones, in whatever order they are listed.

Whole recordings are held out, not clips: the segments of one recording are alike and must not end up on both sides.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool
from pydantic import Field, PositiveInt, model_serializer, model_validator

from solfa.config import Config
from solfa.data.stable_random import stable_key
from solfa.errors import ConfigError
from solfa.spelling import plural

Side = Literal["train", "valid"]

OTHER_DATA = "dset.valid=DATASET dset.hold_out=null"
"""What to type for a run that validates on data of its own."""

_SEGMENT = re.compile(r"(@\d{5,}\.\d{3})?(#\d+)?$")


class HoldOut(Config):
    """How much of the training data to keep for validation: a fraction of the recordings, or a number of clips.

    >>> from solfa.data import Dset, HoldOut, Source, open_stage
    >>> dset = Dset(train=[Source(path="music.solfa")], hold_out=HoldOut(fraction=0.5))
    >>> len(open_stage(dset, "train")) + len(open_stage(dset, "valid"))
    7
    """

    fraction: float | None = Field(default=None, gt=0, lt=1)
    """A hash of its name alone decides whether a recording is held out, so new recordings do not move others."""
    clips: PositiveInt | None = None
    """Hold out the recordings with the smallest hashes, as many as it takes for this many clips."""
    seed: int = 0
    """Another seed gives another choice."""
    by: Literal["recording", "content"] = "recording"
    """What stays together: the clips of a recording, or also recordings that hold copies of each other."""

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, serialise: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Leave out what came later, unless it is used: runs that began without it can continue."""
        values = serialise(self)
        return {name: value for name, value in values.items() if name != "by" or value != "recording"}

    @model_validator(mode="after")
    def _one_size(self) -> "HoldOut":
        if (self.fraction is None) == (self.clips is None):
            raise ValueError("expected either fraction or clips")
        return self

    def recordings(self, clips_of: Counter[str]) -> set[str]:
        """Choose recordings, given how many clips each has."""
        if self.fraction is not None:
            limit = int(self.fraction * (1 << 128))
            return {recording for recording in clips_of if self._key(recording) < limit}
        assert self.clips is not None
        chosen: set[str] = set()
        found = 0
        for recording in sorted(clips_of, key=lambda name: (self._key(name), name)):
            if found >= self.clips:
                break
            chosen.add(recording)
            found += clips_of[recording]
        return chosen

    def least_fraction(self, clips_of: Counter[str]) -> float | None:
        """Return a fraction with few digits that takes a recording and leaves one; None if there are not two."""
        keys = sorted(self._key(recording) / (1 << 128) for recording in clips_of)
        steps = [10.0**digits for digits in range(2, 12)] if len(keys) > 1 else []
        fractions = (math.ceil(step * keys[0] + 1e-9) / step for step in steps)
        return next((fraction for fraction in fractions if keys[0] < fraction <= keys[-1]), None)

    def _key(self, recording: str) -> int:
        return stable_key("hold out", self.seed, recording)


def recording_of(clip_id: str) -> str:
    """Return the recording that a clip is a segment of: its id without the start of the segment."""
    return _SEGMENT.sub("", clip_id, count=1)


def on_side(
    ids: Sequence[str], hold_out: HoldOut, side: Side, groups: Mapping[str, str] | None = None
) -> Bool[np.ndarray, "clips"]:
    """Find the clips of one side; it is an error if a side has none. Recordings of one group stay together."""
    recordings = [recording_of(clip_id) for clip_id in ids]
    if groups is not None:
        recordings = [groups[recording] for recording in recordings]
    counts = Counter(recordings)
    held = hold_out.recordings(counts)
    if not held or len(held) == len(counts):
        size = f"fraction {hold_out.fraction}" if hold_out.clips is None else f"clips {hold_out.clips}"
        taken = "all" if held else "none"
        there = f"{plural(len(counts), 'recording')} with {plural(len(ids), 'clip')}"
        if len(counts) == 1:
            raise ConfigError(
                f"hold_out: there is only {there}, and recordings are held out whole; train on more recordings, or "
                f"name other data to validate on: {OTHER_DATA}"
            )
        enough = hold_out.least_fraction(counts)
        advice = "change the size" if held or enough is None else f"set dset.hold_out.fraction={enough:g}"
        raise ConfigError(
            f"hold_out: {size} takes {taken} of {there}, but both sides need some; {advice}, or name other data to "
            f"validate on: {OTHER_DATA}"
        )
    return np.array([(recording in held) == (side == "valid") for recording in recordings], bool)
