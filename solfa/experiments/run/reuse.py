"""Decide, without loading a codec, whether a dataset is what encoding some audio would produce."""

from pathlib import Path

from solfa.codecs.same_codec import is_same_codec
from solfa.encoding.recording_versions import Versions, compare_recordings, planned_versions
from solfa.errors import StoreError
from solfa.spelling import plural
from solfa.store.layout import read_info
from solfa.store.status import read_status


def why_not(candidate: Path, codec: str, segment_seconds: float | None, listed: Versions) -> str | None:
    """Say why a dataset cannot be used for some audio; None if it can."""
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
