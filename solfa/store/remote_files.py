"""Which files of object stores the clips of a source are in, for whoever fetches them ahead."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from solfa.store.file_cache import FileCache, Wanted


class RemoteFiles(NamedTuple):
    """The data files of one or several datasets, and the number of the file of every clip."""

    files: tuple[Wanted, ...]
    of_clips: np.ndarray[Any, Any]
    """int64; -1 for a clip that is on this machine."""
    cache: FileCache


def joined_files(parts: Sequence[tuple[RemoteFiles | None, int]]) -> RemoteFiles | None:
    """Join the files of several sources, given with their numbers of clips, laid end to end; None if all are here."""
    remote = [files for files, _ in parts if files is not None]
    if not remote:
        return None
    of_clips, num_files = [], 0
    for files, num_clips in parts:
        if files is None:
            of_clips.append(np.full(num_clips, -1, np.int64))
        else:
            of_clips.append(np.where(files.of_clips < 0, -1, files.of_clips + num_files))
            num_files += len(files.files)
    return RemoteFiles(
        tuple(wanted for files in remote for wanted in files.files), np.concatenate(of_clips), remote[0].cache
    )
