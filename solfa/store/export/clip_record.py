"""Everything a dataset knows about one clip, as plain JSON values from which the clip can be restored.

Meta says what was stored, the plan says where the recording was at planning time; a record has both.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from solfa.errors import StoreError
from solfa.store.dataset import Dataset
from solfa.store.export.plan_rows import PlanRows
from solfa.store.planned_clip import PlannedClip
from solfa.store.shard_reader import Clip
from solfa.store.shard_writer import Outcome


class ClipRecord(BaseModel):
    """One clip without its array; fields that someone added to an exported file are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    index: int = Field(ge=0)
    """Position in the exported dataset."""
    id: str
    num_frames: int = Field(ge=0)
    num_samples: int = Field(ge=0)
    seconds: float = Field(ge=0)
    caption: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    scales: list[float] | None = None
    error: str | None = None
    key: str
    uri: str
    size_bytes: int = 0
    mtime_ns: int = 0
    member: str | None = None
    member_offset: int = 0
    member_size: int = 0
    start: int = 0
    stop: int = 0
    source_sample_rate: int = 0
    source_num_channels: int = 0
    source_num_samples: int = 0
    source_format: str = ""

    def planned(self) -> PlannedClip:
        """Convert it to a row of a plan."""
        return PlannedClip(**self.model_dump(include=_PLANNED))


_PLANNED = set(PlannedClip.__dataclass_fields__) - {"error"}


class ExportedClip(NamedTuple):
    """A clip of the dataset being exported."""

    record: ClipRecord
    array: np.ndarray[Any, Any]
    """[T, W], a view of the data file."""


def exported_clips(dataset: Dataset, plan: PlanRows, indices: range) -> Iterator[ExportedClip]:
    """Read some clips of a dataset with everything it knows about them."""
    for index in indices:
        clip = dataset[index]
        clip.check()
        yield ExportedClip(_record(index, clip, plan.find(clip.id)), clip.array)


def failed_records(dataset: Dataset) -> Iterator[ClipRecord]:
    """Make records for the clips that have no array."""
    plan = PlanRows(dataset.path)
    for index, failed in enumerate(dataset.failures()):
        yield _from_plan(index, plan.find(failed.id), num_frames=0, seconds=0.0, error=failed.error)


def _record(index: int, clip: Clip, planned: PlannedClip) -> ClipRecord:
    source = clip.source
    described = {
        f"source_{name}": source.pop(name) for name in ("sample_rate", "num_channels", "num_samples", "format")
    }
    stored = replace(
        planned, **source, **described, caption=clip.caption, metadata=clip.metadata, num_samples=clip.num_samples
    )
    scales = None if clip.scales is None else clip.scales.tolist()
    return _from_plan(index, stored, num_frames=clip.num_frames, seconds=clip.seconds, scales=scales)


def _from_plan(index: int, planned: PlannedClip, **stored: Any) -> ClipRecord:
    known = {name: getattr(planned, name) for name in _PLANNED}
    return ClipRecord(index=index, **known, **stored)


def outcome_of(record: ClipRecord, array: np.ndarray[Any, Any] | None, error: str | None) -> Outcome:
    """Turn a record back into an outcome that can be written to a shard."""
    if array is None:
        return Outcome(record.planned(), error=error or record.error or "unknown")
    scales = None if record.scales is None else np.array(record.scales, np.float32)
    return Outcome(record.planned(), array, record.num_samples, scales)


def parse_record(values: Any, where: str) -> ClipRecord:
    """Validate a record that was read from a file."""
    try:
        return ClipRecord.model_validate(values)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in fault["loc"]) or "the record"
        raise StoreError(f"{where}: not a clip exported by Solfa ({field}: {fault['msg']})") from None


def json_bytes(value: Any) -> bytes:
    """Serialise values for an exported JSON file, in the order given, the same way every time."""
    # No indent: the fast C encoder of json cannot do it.
    return (json.dumps(value, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def json_line(record: ClipRecord) -> bytes:
    """Serialise a record as a line of JSON; an unpaired surrogate stays a JSON escape."""
    text = json.dumps(record.model_dump(mode="json"), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"
