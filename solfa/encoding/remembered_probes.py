"""Open the recordings of a source once, however often planning is killed.

    .tmp/probed-<hash of 512 recordings>.json     what their headers say, until the plan is written

The hash covers where the recordings are, their sizes and times, so a file that has changed is opened again. What could
not be read is not remembered, because it may be there the next time, nor is what has neither a size nor a time.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence

from solfa.audio.probe import RECORDINGS_PER_CHUNK, Probed, probe_in_chunks
from solfa.audio.recording import AudioInfo, Recording
from solfa.encoding.recording_versions import UNKNOWN, version_of
from solfa.files.chunks import chunks
from solfa.files.crash_points import crash_point
from solfa.files.stores.place import Place, store_at, whole_place
from solfa.files.stores.protocol import Store
from solfa.files.whole_files import TEMPORARY
from solfa.version import __version__

PREFIX = "probed-"


def probe_and_remember(root: Place, source_root: Place, recordings: Iterable[Recording]) -> Iterator[list[Probed]]:
    """Probe recordings in chunks, in their order, except those that a killed process has probed for this dataset."""
    store = store_at(root)
    for chunk in chunks(recordings, RECORDINGS_PER_CHUNK):
        key = f"{TEMPORARY}/{PREFIX}{_digest(source_root, chunk)}.json"
        known = _read(store, key, len(chunk))
        missing = [recording for recording, info in zip(chunk, known, strict=True) if info is None]
        opened = iter([info for part in probe_in_chunks(source_root, missing) for _, info in part])
        found: list[AudioInfo | str] = [next(opened) if info is None else info for info in known]
        probed = list(zip(chunk, found, strict=True))
        if rows := _rows(probed):
            store.create(key, json.dumps(rows).encode())
        crash_point("plan:probed")
        yield probed


def forget_probes(root: Place) -> None:
    """Remove what was remembered: the plan says it all."""
    store = store_at(root)
    store.delete(f"{TEMPORARY}/{name}" for name in store.names(TEMPORARY) if name.startswith(PREFIX))


def _digest(source_root: Place, chunk: Sequence[Recording]) -> str:
    rows = [
        [one.uri, one.size_bytes, one.mtime_ns, one.member, one.member_offset, one.member_size, one.error]
        for one in chunk
    ]
    # In ASCII, because the path of a folder need not be UTF-8.
    text = json.dumps([__version__, str(whole_place(source_root)), rows])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _rows(probed: Sequence[Probed]) -> Sequence[AudioInfo | None]:
    """Choose what to remember of a chunk; nothing at all if there is nothing."""
    rows = [None if isinstance(info, str) or version_of(recording) == UNKNOWN else info for recording, info in probed]
    return rows if any(rows) else []


def _read(store: Store, key: str, count: int) -> list[AudioInfo | None]:
    """Read what is remembered of a chunk; a file that is not what we write is as good as none."""
    try:
        rows = json.loads(store.read(key))
    except (OSError, ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list) or len(rows) != count:
        return [None] * count
    return [AudioInfo(*row) if _is_info(row) else None for row in rows]


def _is_info(row: object) -> bool:
    return (
        isinstance(row, list)
        and len(row) == len(AudioInfo._fields)
        and all(type(number) is int and number > 0 for number in row[:3])
        and isinstance(row[3], str)
    )
