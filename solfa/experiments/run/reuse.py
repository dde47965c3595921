"""Decide, without loading a codec, whether a dataset is what encoding some audio would give."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from solfa.audio.recording import AudioSource
from solfa.codecs.families.linear import LinearOptions
from solfa.codecs.families.mulaw import MulawOptions
from solfa.codecs.families.oobleck import OobleckOptions
from solfa.codecs.spec import CodecSpec, parse_spec
from solfa.errors import StoreError
from solfa.store.layout import read_info
from solfa.store.plan_file import iterate_plan_columns
from solfa.store.status import read_status

Versions = Mapping[str, tuple[int, int]]
"""Recordings by key, with the size and the modification time that tell whether they changed; zeros where unknown."""

_DEFAULTS: dict[str, str] = {
    name: str(value).lower()
    for options in (MulawOptions(), OobleckOptions())
    for name, value in options.model_dump().items()
} | {"precision": "fp32"}
_DEFAULTS_OF = {"linear": {"bits": str(LinearOptions().bits)}}
"""Where a codec has another default for an option of the same name."""


class Differences(NamedTuple):
    """How the recordings of a source differ from those of a plan, by their keys."""

    new: list[str]
    gone: list[str]
    resized: list[str]
    touched: list[str]
    """Of equal size, but written at another time: copied, or changed."""


def listed_versions(recordings: AudioSource) -> dict[str, tuple[int, int]]:
    """List the recordings of a source as they are now."""
    return {recording.key: (recording.size_bytes, recording.mtime_ns) for recording in recordings.recordings()}


def planned_versions(root: Path) -> dict[str, tuple[int, int]]:
    """List the recordings of a dataset as they were when they were planned."""
    found: dict[str, tuple[int, int]] = {}
    for columns in iterate_plan_columns(root, ["key", "size_bytes", "mtime_ns"]):
        found.update(zip(columns["key"], zip(columns["size_bytes"], columns["mtime_ns"], strict=True), strict=True))
    return found


def compare_recordings(listed: Versions, planned: Versions) -> Differences:
    """Compare a source with a plan; clips that were imported without their audio have nothing to compare."""
    both = [key for key in listed if key in planned and planned[key] != (0, 0)]
    return Differences(
        new=[key for key in listed if key not in planned],
        gone=[key for key in planned if key not in listed],
        resized=[key for key in both if listed[key][0] != planned[key][0]],
        touched=[key for key in both if listed[key][0] == planned[key][0] and listed[key][1] != planned[key][1]],
    )


def codec_fits(wanted: str, stored: str) -> bool:
    """Say whether a codec's text names the codec of a dataset.

    A dataset's text spells out every option. One that `wanted` leaves open must have its default; the number of
    codebooks, whose default only the checkpoint knows, may be any.
    """
    ours, theirs = parse_spec(wanted), parse_spec(stored)
    if theirs.head not in (ours.head, normal_spec(wanted).head):
        return False
    given = {name: value.lower() for name, value in ours.options.items()}
    known = {name: value.lower() for name, value in theirs.options.items()}
    defaults = _DEFAULTS | _DEFAULTS_OF.get(theirs.head, {})
    for name in given.keys() | known.keys():
        default = defaults.get(name)
        there = known.get(name, default)
        if name in given and given[name] != there:
            return False
        if name not in given and name != "num_codebooks" and there != default:
            return False
    return True


def normal_spec(text: str) -> CodecSpec:
    """Read a codec's text; a path in it becomes absolute, and so means the same everywhere."""
    spec = parse_spec(text)
    path = Path(spec.head).expanduser()
    return CodecSpec(str(path.absolute()), spec.options) if path.exists() else spec


def why_not(candidate: Path, codec: str, segment_seconds: float | None, listed: Versions) -> str | None:
    """Say why a dataset cannot stand for some audio; None if it can."""
    try:
        return _why_not(candidate, codec, segment_seconds, listed)
    except StoreError as error:
        return str(error)


def _why_not(candidate: Path, codec: str, segment_seconds: float | None, listed: Versions) -> str | None:
    info = read_info(candidate)
    if not codec_fits(codec, info.codec):
        return f"it was encoded with {info.codec}"
    cut = info.parts.get("segment_seconds")
    if segment_seconds is not None and cut != segment_seconds:
        return f"it is cut into segments of {cut} s, not of {segment_seconds} s"
    if not read_status(candidate).is_finished:
        return "it is not finished; the same `solfa encode` again finishes it"
    found = compare_recordings(listed, planned_versions(candidate))
    for keys, what in ((found.new, "it lacks"), (found.gone, "it has besides"), (found.resized, "of another size are")):
        if keys:
            return f"{what} {len(keys)} recordings, the first: {keys[0]}"
    return None
