"""Recordings as they are and as they were planned: which are new, which are gone, which changed."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from solfa.audio.recording import AudioSource, Recording
from solfa.files.stores.place import Place
from solfa.store.plain_columns import column
from solfa.store.plan_file import iterate_plan_batches, iterate_plan_columns

Version = tuple[int, int]
"""The size and the modification time of a file, which tell whether it changed; zeros where they are not known."""
Versions = Mapping[str, Version]
"""By the keys of recordings."""

UNKNOWN: Version = (0, 0)
"""What a clip has that was imported without its audio."""
_COLUMNS = ["key", "size_bytes", "mtime_ns"]


class Differences(NamedTuple):
    """How the recordings of a source differ from those of a plan, by their keys."""

    new: list[str]
    gone: list[str]
    resized: list[str]
    touched: list[str]
    """Of equal size, but written at another time: copied, or changed."""


def version_of(recording: Recording) -> Version:
    """Say what tells whether a recording changed."""
    return recording.size_bytes, recording.mtime_ns


def listed_versions(source: AudioSource) -> dict[str, Version]:
    """List the recordings of a source as they are now."""
    return {recording.key: version_of(recording) for recording in source.recordings()}


def planned_versions(root: Place) -> dict[str, Version]:
    """List the recordings of a dataset as they were when they were planned."""
    found: dict[str, Version] = {}
    for columns in iterate_plan_columns(root, _COLUMNS):
        found.update(zip(columns["key"], zip(columns["size_bytes"], columns["mtime_ns"], strict=True), strict=True))
    return found


def versions_of(root: Place, keys: Collection[str]) -> dict[str, Version]:
    """Look some recordings up in the plan of a dataset, the newest if one was planned again."""
    found: dict[str, Version] = {}
    wanted = column(list(keys), pa.string())
    for table in iterate_plan_batches(root, _COLUMNS):
        rows = table.filter(pc.is_in(table.column("key"), wanted)).to_pydict()
        found.update(zip(rows["key"], zip(rows["size_bytes"], rows["mtime_ns"], strict=True), strict=True))
    return found


def has_changed(planned: Version, now: Version) -> bool:
    """Say whether a recording is not what it was when it was planned, as far as that is known."""
    return planned not in (UNKNOWN, now)


def compare_recordings(listed: Versions, planned: Versions) -> Differences:
    """Compare a source with a plan."""
    changed = [key for key in listed if key in planned and has_changed(planned[key], listed[key])]
    return Differences(
        new=[key for key in listed if key not in planned],
        gone=[key for key in planned if key not in listed],
        resized=[key for key in changed if listed[key][0] != planned[key][0]],
        touched=[key for key in changed if listed[key][0] == planned[key][0]],
    )
