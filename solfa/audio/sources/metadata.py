"""What a source says about a recording: JSON values, a caption, and the files next to the audio."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from solfa.audio.decoders.byte_range import regular_file_fault
from solfa.files.json_objects import parse_strict

CAPTION_FIELDS = ("caption", "text", "prompt", "description")
SIDECAR_ERROR = "sidecar_error"
"""The metadata field that says why a side-car file could not be used."""
MAX_SIDECAR_BYTES = 1 << 24


def find_caption(metadata: Mapping[str, Any]) -> str | None:
    """Take the caption out of metadata: a text, or the first of a list of texts."""
    for name in CAPTION_FIELDS:
        value = metadata.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def merge_sidecars(text: bytes | None, object_text: bytes | None) -> tuple[str | None, dict[str, Any]]:
    """Combine a `.txt` caption and a `.json` object; the caption in the `.txt` wins."""
    metadata: dict[str, Any] = {}
    faults = []
    if object_text is not None:
        try:
            metadata = parse_strict(object_text)
        except ValueError as error:
            faults.append(f".json: not a JSON object ({error})")
    caption = find_caption(metadata)
    if text is not None:
        try:
            written = text.decode("utf-8-sig").strip()
        except UnicodeDecodeError:
            faults.append(".txt: is not UTF-8")
        else:
            caption = written or caption
            metadata.setdefault("caption", written)
    return caption, metadata | ({SIDECAR_ERROR: "; ".join(faults)} if faults else {})


def read_sidecars(audio: Path) -> tuple[str | None, dict[str, Any]]:
    """Read `x.txt` and `x.json` next to `x.wav`."""
    text, text_fault = _read_sidecar(audio.with_suffix(".txt"))
    object_text, object_fault = _read_sidecar(audio.with_suffix(".json"))
    caption, metadata = merge_sidecars(text, object_text)
    faults = [fault for fault in (metadata.get(SIDECAR_ERROR), text_fault, object_fault) if fault]
    return caption, metadata | ({SIDECAR_ERROR: "; ".join(faults)} if faults else {})


def _read_sidecar(path: Path) -> tuple[bytes | None, str | None]:
    fault = regular_file_fault(path)
    if fault == "no such file":
        return None, None
    if fault is None:
        try:
            with path.open("rb") as file:
                content = file.read(MAX_SIDECAR_BYTES + 1)
        except OSError as error:
            fault = str(error.strerror)
        else:
            if len(content) <= MAX_SIDECAR_BYTES:
                return content, None
            fault = f"is larger than {MAX_SIDECAR_BYTES:,} bytes"
    return None, f"{path.suffix}: {fault}"
