"""List the audio files and tars below a folder in an order that does not depend on the file system."""

import os
import unicodedata
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from solfa.audio.file_types import is_audio_name
from solfa.files.printable_names import escape_path

TAR_EXTENSIONS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


SIDECAR_EXTENSIONS = (".txt", ".json")


class Found(NamedTuple):
    """An escaped path below the folder."""

    name: str
    error: str | None = None
    """Why a folder cannot be entered."""
    has_sidecars: bool = False
    """Whether there may be a text or JSON file of the same name beside it."""


def is_tar_name(name: str) -> bool:
    """Tell whether a name is that of a tar, compressed or not."""
    return name.lower().endswith(TAR_EXTENSIONS)


def walk(root: Path) -> list[Found]:
    """List everything that looks like audio or a tar, sorted by escaped path; hidden names are skipped."""
    return sorted(_walk(root, "", frozenset()))


def _walk(folder: Path, below: str, ancestors: frozenset[tuple[int, int]]) -> Iterator[Found]:
    try:
        status = folder.stat()
        identity = (status.st_dev, status.st_ino)
        if identity in ancestors:
            # A link back to a folder we are already in.
            return
        with os.scandir(folder) as entries:
            children = [(entry.name, _is_folder(entry)) for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        yield Found(below.rstrip("/") or ".", f"the folder cannot be listed: {error.strerror}")
        return
    beside = {_folded(name) for name, _ in children if name.lower().endswith(SIDECAR_EXTENSIONS)}
    for name, is_folder in children:
        if is_folder:
            yield from _walk(folder / name, f"{below}{escape_path(name)}/", ancestors | {identity})
        elif is_audio_name(name) or is_tar_name(name):
            yield Found(below + escape_path(name), has_sidecars=bool(beside) and _has_sidecars(name, beside))


def _has_sidecars(name: str, beside: Collection[str]) -> bool:
    stem = name.rpartition(".")[0]
    return any(_folded(stem + suffix) in beside for suffix in SIDECAR_EXTENSIONS)


def _folded(name: str) -> str:
    """Make equal what some file system takes for equal, upper and lower case for example: one too many does no harm."""
    return name.lower() if name.isascii() else unicodedata.normalize("NFC", name).casefold()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link to itself is not a folder; if it is named like audio, it becomes a recording with a reason.
        return False
