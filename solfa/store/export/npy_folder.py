"""A folder of plain files that mirrors the ids: `<id>.npy` [T, W] and `<id>.json` with everything known about it."""

from solfa.files.id_names import tree_name
from solfa.store.export.clip_record import json_bytes
from solfa.store.export.job import ExportJob
from solfa.store.export.npy_bytes import npy_bytes


def write_npy(job: ExportJob) -> None:
    """Write two files per clip."""
    for record, array in job.clips():
        name = tree_name(record.id)
        job.folder.put(f"{name}.npy", npy_bytes(array))
        job.folder.put(f"{name}.json", json_bytes(record.model_dump(mode="json")))
