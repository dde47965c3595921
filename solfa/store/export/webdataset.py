"""WebDataset: numbered tars of `<number>.npy` [T, W] and `<number>.json`.

The key is a number because WebDataset cuts keys at the first dot, and most ids have one; the id is in the JSON.
"""

import io
import tarfile
from typing import IO

from solfa.store.export.clip_record import json_bytes
from solfa.store.export.job import ExportJob
from solfa.store.export.npy_bytes import npy_bytes


def write_webdataset(job: ExportJob) -> None:
    """Write the tars; equal datasets give equal bytes."""
    for number, indices in enumerate(job.parts()):
        # Bound as a default argument: a closure over the loop variable would see the next part's range.
        def write(file: IO[bytes], indices: range = indices) -> None:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
                for record, array in job.read(indices):
                    key = f"{record.index:09d}"
                    _add(tar, f"{key}.npy", npy_bytes(array))
                    _add(tar, f"{key}.json", json_bytes(record.model_dump(mode="json")))

        job.folder.build(f"{number:06d}.tar", write)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)  # time, owner and group are 0 unless set
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
