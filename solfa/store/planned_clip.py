"""One row of the frozen plan as an object. No Arrow here: processes that only read audio start without it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from solfa.files.json_objects import parse_object


@dataclass(frozen=True, slots=True)
class PlannedClip:
    """One clip to encode: which samples of which recording, and what is known about it.

    >>> from solfa.store import PlannedClip
    >>> clip = PlannedClip(id="a", key="a", uri="a.wav", num_samples=32_000, caption="a bell")
    >>> PlannedClip.from_row(clip.as_row()) == clip
    True
    """

    id: str
    key: str
    uri: str
    size_bytes: int = 0
    mtime_ns: int = 0
    member: str | None = None
    member_offset: int = 0
    member_size: int = 0
    start: int = 0
    """The first sample, at the recording's own rate."""
    stop: int = 0
    num_samples: int = 0
    """The length at the codec's sample rate; clips of equal length can share a batch."""
    source_sample_rate: int = 0
    source_num_channels: int = 0
    source_num_samples: int = 0
    source_format: str = ""
    caption: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    """Why it cannot be encoded, if that is known in advance."""

    def as_row(self) -> dict[str, Any]:
        """Convert it to the columns of the plan."""
        # Not `asdict`, which copies every value deeply and takes ten times as long.
        row = {name: getattr(self, name) for name in _NAMES}
        row["metadata"] = metadata_text(self.metadata)
        return row

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "PlannedClip":
        """Invert `as_row`; a place that cannot be in a recording is a ValueError."""
        clip = cls(**{**row, "metadata": parse_object(row["metadata"])})
        # Of imported clips the length of the recording is not known.
        end = clip.source_num_samples or clip.stop
        if clip.error is None and not 0 <= clip.start <= clip.stop <= end:
            raise ValueError(f"clip {clip.id!r} spans samples {clip.start} to {clip.stop} of {end}")
        return clip


_NAMES = tuple(field.name for field in fields(PlannedClip))


def metadata_text(metadata: Mapping[str, Any]) -> str:
    """Write metadata as a JSON object; an unpaired surrogate, which UTF-8 cannot encode, stays a JSON escape."""
    text = json.dumps(metadata, ensure_ascii=False, sort_keys=True)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(metadata, ensure_ascii=True, sort_keys=True)
    return text
