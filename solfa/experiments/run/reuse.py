"""Decide, without loading a codec, whether a dataset is what encoding some audio would produce."""

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
from solfa.ui.numbers import plural

Versions = Mapping[str, tuple[int, int]]
"""Recordings by key, with the size and modification time that show whether they changed; zeros where unknown."""

_DEFAULTS: dict[str, str] = {
    name: str(value).lower()
    for options in (MulawOptions(), OobleckOptions())
    for name, value in options.model_dump().items()
} | {"precision": "fp32"}
_DEFAULTS_OF = {"linear": {"bits": str(LinearOptions().bits)}}
"""Where a codec's default for an option differs from the usual one."""


class Differences(NamedTuple):
    """How the recordings of a source differ from those of a plan, by their keys."""

    new: list[str]
    gone: list[str]
    resized: list[str]
    touched: list[str]
    """Same size, but written at another time: copied, or changed."""


def listed_versions(recordings: AudioSource) -> dict[str, tuple[int, int]]:
    """List the recordings of a source with their current versions."""
    return {recording.key: (recording.size_bytes, recording.mtime_ns) for recording in recordings.recordings()}


def planned_versions(root: Path) -> dict[str, tuple[int, int]]:
    """List the recordings of a dataset with their versions at planning time."""
    found: dict[str, tuple[int, int]] = {}
    for columns in iterate_plan_columns(root, ["key", "size_bytes", "mtime_ns"]):
        found.update(zip(columns["key"], zip(columns["size_bytes"], columns["mtime_ns"], strict=True), strict=True))
    return found


def compare_recordings(listed: Versions, planned: Versions) -> Differences:
    """Compare a source with a plan, skipping clips that were imported without their audio."""
    both = [key for key in listed if key in planned and planned[key] != (0, 0)]
    return Differences(
        new=[key for key in listed if key not in planned],
        gone=[key for key in planned if key not in listed],
        resized=[key for key in both if listed[key][0] != planned[key][0]],
        touched=[key for key in both if listed[key][0] == planned[key][0] and listed[key][1] != planned[key][1]],
    )


def codec_fits(wanted: str, stored: str) -> bool:
    """Say whether `wanted` describes the codec that a dataset was encoded with.

    A dataset spells out every option. One that `wanted` leaves open must have its default value, except for the number
    of codebooks, whose default only the checkpoint knows.
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
    """Parse a codec's text and make a path in it absolute, so that it means the same everywhere."""
    spec = parse_spec(text)
    path = Path(spec.head).expanduser()
    return CodecSpec(str(path.absolute()), spec.options) if path.exists() else spec


def why_not(candidate: Path, codec: str, segment_seconds: float | None, listed: Versions) -> str | None:
    """Say why a dataset cannot be used for some audio; None if it can."""
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
        return f"its segments are {cut} s long, not {segment_seconds} s"
    if not read_status(candidate).is_finished:
        return "it is unfinished; run the same `solfa encode` again to finish it"
    found = compare_recordings(listed, planned_versions(candidate))
    for keys, what in (
        (found.new, "missing from it"),
        (found.gone, "no longer there"),
        (found.resized, "changed size"),
    ):
        if keys:
            return f"{plural(len(keys), 'recording')} {what}, first {keys[0]}"
    return None
