"""Recordings as they are and as they were planned: which are new, which are gone, which changed."""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from solfa.audio.recording import AudioSource, Recording
from solfa.files.stores.place import Place
from solfa.store.plain_columns import column
from solfa.store.plan_file import iterate_plan_columns, iterate_plan_tables

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


class Known(Enum):
    """What the digests of a plan say of a recording."""

    NO = "it was not planned"
    AS_IT_IS = "it was planned, and has not changed as far as that is known"
    UNSURE = "it was planned with another size or time; or, very rarely, one was whose key has the same hash"


class PlannedRecordings:
    """The recordings of a dataset as they were when they were planned, in 16 bytes for each clip.

    These are two hashes: one of the recording's key, and one of another form of its key, its size and its time. If both
    are what they were, the recording is taken to be: two different ones would have to agree in 128 bits. If only the
    first is, the plan is asked for the recording itself, so that 64 bits alone decide nothing.
    """

    def __init__(self, keys: "array[int]", versions: "array[int]") -> None:
        """Take over hashes of keys, and those of keys and versions, in the same order; they are sorted in place."""
        hashes, others = np.frombuffer(keys, np.int64), np.frombuffer(versions, np.int64)
        if len(hashes):
            others[:] = others[np.argsort(hashes)]
            hashes.sort()
        self._keys, self._versions = keys, versions

    @classmethod
    def read(cls, root: Place) -> "PlannedRecordings":
        """Read the plan of a dataset."""
        keys, versions = array("q"), array("q")
        for columns in iterate_plan_columns(root, _COLUMNS):
            keys.extend(map(hash, columns["key"]))
            versions.extend(map(_version_hash, *(columns[name] for name in _COLUMNS)))
        return cls(keys, versions)

    def find(self, key: str, version: Version) -> Known:
        """Say whether a recording was planned, and is what it was then."""
        wanted, hashes = hash(key), self._keys
        place, end = bisect_left(hashes, wanted), len(hashes)
        if place == end or hashes[place] != wanted:
            return Known.NO
        planned = self._versions[place]
        if planned != _version_hash(key, *version) and planned != _version_hash(key, *UNKNOWN):
            return Known.UNSURE
        # A recording that is several clips, or was planned again: if not as the same, the newest counts.
        place += 1
        while place < end and hashes[place] == wanted:
            if self._versions[place] != planned:
                return Known.UNSURE
            place += 1
        return Known.AS_IT_IS


def _version_hash(key: str, size_bytes: int, mtime_ns: int) -> int:
    # Another form of the key: its own hash says nothing that is not known already.
    return hash((f"{key}\0", size_bytes, mtime_ns))


def versions_of(root: Place, keys: Collection[str]) -> dict[str, Version]:
    """Look some recordings up in the plan of a dataset, the newest if one was planned again."""
    found: dict[str, Version] = {}
    wanted = column(list(keys), pa.string())
    for table in iterate_plan_tables(root, _COLUMNS):
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
