"""The layout of MusicCaps token folders: one integer array per YouTube id and a JSON file that maps ids to files.

OUT/pre_encoded_audio/<id>.npy    [K, T] codes, or [Z, T] latents
OUT/pre_encoded_metadata.json     {"<id>": "<id>.npy", ...}
OUT/_solfa_clips.jsonl            everything else that is known, one line per clip
"""

from typing import IO

from solfa.files.id_names import flat_name
from solfa.store.export.clip_record import json_bytes, json_line
from solfa.store.export.job import ExportJob, legacy_array
from solfa.store.export.npy_bytes import npy_bytes

AUDIO_FOLDER = "pre_encoded_audio"
METADATA = "pre_encoded_metadata.json"
CLIPS = "_solfa_clips.jsonl"


def write_musiccaps(job: ExportJob) -> None:
    """Write the layout; the index comes last."""
    files: dict[str, str] = {}
    for record, array in job.clips():
        files[record.id] = f"{flat_name(record.id)}.npy"
        job.folder.put(f"{AUDIO_FOLDER}/{files[record.id]}", npy_bytes(legacy_array(array)))

    def write_lines(file: IO[bytes]) -> None:
        for record, _ in job.read(range(len(job.dataset))):
            file.write(json_line(record))

    job.folder.build(CLIPS, write_lines)
    job.folder.put(METADATA, json_bytes(files))
