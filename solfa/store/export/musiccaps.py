"""The layout of MusicCaps token folders: one integer array per YouTube id and a JSON file that maps ids to files.

OUT/pre_encoded_audio/<name>.npy  [K, T] codes, or [Z, T] latents
OUT/pre_encoded_metadata.json     {"<name>": "<name>.npy", ...}
OUT/_solfa_clips.jsonl            everything else that is known, one line per clip

The name is the clip's id without the extension of its recording: the YouTube id, if the recording was `<ytid>.wav`.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import IO

from solfa.audio.file_types import extension, is_audio_name
from solfa.files.id_names import flat_name
from solfa.store.export.clip_record import json_bytes, json_line
from solfa.store.export.job import ExportJob, legacy_array
from solfa.store.export.npy_bytes import npy_bytes

AUDIO_FOLDER = "pre_encoded_audio"
METADATA = "pre_encoded_metadata.json"
CLIPS = "_solfa_clips.jsonl"

_SEGMENT = re.compile(r"(?P<key>.*?)(?P<start>@\d{5,}\.\d{3})?", re.DOTALL)


def write_musiccaps(job: ExportJob) -> None:
    """Write the layout; the index comes last."""
    ids = job.dataset.ids()
    names = bare_names(ids)
    files = {name: f"{flat_name(name)}.npy" for name in names}
    kept = [name for name, clip_id in zip(names, ids, strict=True) if name != _bare(clip_id)]
    if kept:
        job.notes.append(f"clips that only their extensions tell apart keep them: {len(kept)} (first: {kept[0]})")
    for name, (_, array) in zip(names, job.clips(), strict=True):
        job.folder.put(f"{AUDIO_FOLDER}/{files[name]}", npy_bytes(legacy_array(array)))

    def write_lines(file: IO[bytes]) -> None:
        for record, _ in job.read(range(len(job.dataset))):
            file.write(json_line(record))

    job.folder.build(CLIPS, write_lines)
    job.folder.put(METADATA, json_bytes(files))


def bare_names(ids: Sequence[str]) -> list[str]:
    """Name clips without the extensions of their recordings; names that would then be equal stay what they were."""
    names = [_bare(clip_id) for clip_id in ids]
    while contested := {name for name, count in Counter(names).items() if count > 1}:
        # A name that is put back can be that of a third clip, which is then put back as well; ids never collide.
        names = [clip_id if name in contested else name for clip_id, name in zip(ids, names, strict=True)]
    return names


def _bare(clip_id: str) -> str:
    """Cut the extension: `x.wav` becomes `x`, and its segment `x.wav@00030.000` becomes `x@00030.000`."""
    found = _SEGMENT.fullmatch(clip_id)
    assert found is not None, "the pattern matches every text"
    key, start = found["key"], found["start"] or ""
    return key[: -len(extension(key))] + start if is_audio_name(key) else clip_id
