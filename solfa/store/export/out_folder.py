"""The folder that an export fills: claimed once, filled with whole files, continued after an interruption.

.solfa_tmp/           files being written; whatever a killed export left there is removed by the next one
_solfa_export.json    whose export this is; written first, says `complete` last
"""

import os
import secrets
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from solfa.errors import ConfigError
from solfa.files.crash import crash_point
from solfa.files.publish import publish, replace_atomically, sync
from solfa.store.export.marker import MARKER, Marker, is_export, read_marker
from solfa.store.schema import record_bytes

_TEMPORARY = ".solfa_tmp"


class OutFolder:
    """A folder that belongs to one export."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.num_files = 0
        self.num_bytes = 0

    def put(self, name: str, content: bytes) -> None:
        """Write a small file, unless it is there with this content.

        No fsync here: it would take longer than all the rest. Until everything is synced at the end the marker is not
        complete, and the next run compares what each file holds, so nothing that a power cut tore stays.
        """
        final = self.root / name
        self._count(len(content))
        if final.is_file() and final.stat().st_size == len(content) and final.read_bytes() == content:
            return
        temporary = self._temporary(final)
        temporary.write_bytes(content)
        crash_point("export:before-rename")
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary.replace(final)

    def build(self, name: str, write: Callable[[IO[bytes]], None]) -> None:
        """Write a large file piece by piece, unless it is there; synced before it has its name, so it is complete."""
        final = self.root / name
        if not final.is_file():
            temporary = self._temporary(final)
            with temporary.open("wb") as file:
                write(file)
            crash_point("export:before-publish")
            publish(temporary, final)
        self._count(final.stat().st_size)

    def _temporary(self, final: Path) -> Path:
        folder = self.root / _TEMPORARY
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{os.getpid()}.{secrets.token_hex(4)}{final.suffix}"

    def _count(self, num_bytes: int) -> None:
        self.num_files += 1
        self.num_bytes += num_bytes

    def complete(self, marker: Marker) -> None:
        """Say that everything is there."""
        shutil.rmtree(self.root / _TEMPORARY, ignore_errors=True)
        if sys.platform == "win32":  # which cannot sync everything at once
            for path in self.root.rglob("*"):
                sync(path)
        else:
            os.sync()
        crash_point("export:before-complete")
        finished = record_bytes(marker.model_copy(update={"complete": True}))
        if (self.root / MARKER).read_bytes() != finished:
            replace_atomically(self.root / MARKER, finished)


def claim(out: Path, marker: Marker, dataset_path: Path) -> OutFolder:
    """Take a new or empty folder for an export, or continue one of the same dataset; refuse anything else untouched."""
    if out.resolve().is_relative_to(dataset_path.resolve()):
        raise ConfigError(f"{out}: lies inside the dataset {dataset_path}; choose a folder outside it")
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out}: expected a new or empty folder, found a file; choose another name")
    if is_export(out):
        _expect_same(out, read_marker(out), marker)
    else:
        foreign = sorted(path.name for path in out.iterdir() if not _is_ours(path)) if out.is_dir() else []
        if foreign:
            raise ConfigError(
                f"{out}: expected a new or empty folder, found {foreign[0]!r}"
                + (f" and {len(foreign) - 1} more" if foreign[1:] else "")
                + "; choose another name"
            )
        replace_atomically(out / MARKER, record_bytes(marker))
    for leftover in out.glob(f".{MARKER}.*"):
        leftover.unlink(missing_ok=True)
    shutil.rmtree(out / _TEMPORARY, ignore_errors=True)
    return OutFolder(out)


def _is_ours(path: Path) -> bool:
    """Recognise what an export leaves that was killed while it wrote its marker."""
    return path.name == _TEMPORARY or path.name.startswith(f".{MARKER}.")


def _expect_same(out: Path, found: Marker, wanted: Marker) -> None:
    before, now = (marker.model_dump(mode="json", exclude={"complete"}) for marker in (found, wanted))
    if before == now:
        return
    if found.format != wanted.format:
        what = f"expected an export as {wanted.format}, found one as {found.format}"
    elif found.limits != wanted.limits:
        what = f"expected parts of {wanted.limits}, found parts of {found.limits}"
    else:
        what = f"holds an export of another dataset or state ({found.num_clips} clips, {found.dataset.codec})"
    raise ConfigError(f"{out}: {what}; choose another folder")
