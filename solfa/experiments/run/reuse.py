"""Decide, without loading a codec, whether a dataset is what encoding some audio would give."""

from pathlib import Path

from solfa.codecs.same_codec import is_same_codec
from solfa.encoding.recording_versions import Versions, compare_recordings, planned_versions
from solfa.errors import StoreError
from solfa.store.layout import read_info
from solfa.store.status import read_status


def why_not(candidate: Path, codec: str, segment_seconds: float | None, listed: Versions) -> str | None:
    """Say why a dataset cannot stand for some audio; None if it can."""
    try:
        return _why_not(candidate, codec, segment_seconds, listed)
    except StoreError as error:
        return str(error)


def _why_not(candidate: Path, codec: str, segment_seconds: float | None, listed: Versions) -> str | None:
    info = read_info(candidate)
    if not is_same_codec(codec, info.codec):
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
