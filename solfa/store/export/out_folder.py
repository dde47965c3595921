"""The folder that an export fills: claimed once, filled with whole files, resumed after an interruption.

.solfa_tmp/           files being written; the next export removes what a killed one left there
_solfa_export.json    which dataset this is an export of; written first, marked `complete` last
"""

import os
import secrets
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from solfa.errors import ConfigError
from solfa.files.crash_points import crash_point
from solfa.files.free_folder import expect_free, expect_no_broken_link
from solfa.files.stores.place import Place
from solfa.files.whole_files import (
    expect_no_link,
    expect_real_folder,
    expect_real_way,
    publish,
    replace_atomically,
    sync,
)
from solfa.store.export.marker import MARKER, Marker, is_export, read_marker
from solfa.store.schema import record_bytes

_TEMPORARY = ".solfa_tmp"


class OutFolder:
    """A folder that belongs to one export."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.num_files = 0
        self.num_bytes = 0
        self._real: set[Path] = set()

    def put(self, name: str, content: bytes) -> None:
        """Write a small file, unless it already has this content.

        No fsync here: it would take longer than everything else. The marker is only completed after everything has been
        synced at the end, and the next run compares the content of each file, so a power cut leaves no torn files.
        """
        final = self._place(name)
        self._count(len(content))
        if final.is_file() and final.stat().st_size == len(content) and final.read_bytes() == content:
            return
        temporary = self._temporary(final)
        temporary.write_bytes(content)
        crash_point("export:before-rename")
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary.replace(final)

    def build(self, name: str, write: Callable[[IO[bytes]], None]) -> None:
        """Write a large file piece by piece, unless it exists; it is synced before it gets its name."""
        final = self._place(name)
        expect_no_link(final)  # what it points to would count as exported
        if not final.is_file():
            temporary = self._temporary(final)
            with temporary.open("wb") as file:
                write(file)
            crash_point("export:before-publish")
            publish(temporary, final)
        self._count(final.stat().st_size)

    def _place(self, name: str) -> Path:
        final = self.root / name
        if final.parent not in self._real:
            expect_real_way(self.root, final.parent)
            self._real.add(final.parent)
        return final

    def _temporary(self, final: Path) -> Path:
        folder = self.root / _TEMPORARY
        expect_real_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{os.getpid()}.{secrets.token_hex(4)}{final.suffix}"

    def _count(self, num_bytes: int) -> None:
        self.num_files += 1
        self.num_bytes += num_bytes

    def complete(self, marker: Marker) -> None:
        """Mark the export as complete."""
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


def claim(out: Path, marker: Marker, dataset_path: Place) -> OutFolder:
    """Claim a new or empty folder for an export, or resume one of the same dataset; refuse anything else."""
    expect_no_broken_link(out, "choose another `out`")
    if isinstance(dataset_path, Path) and out.resolve().is_relative_to(dataset_path.resolve()):
        raise ConfigError(f"{out}: is inside the dataset {dataset_path}; choose a folder outside it")
    if is_export(out):
        _expect_same(out, read_marker(out), marker)
    else:
        expect_free(out, "choose another `out`", is_ours=_is_ours)
        replace_atomically(out / MARKER, record_bytes(marker))
    for leftover in out.glob(f".{MARKER}.*"):
        leftover.unlink(missing_ok=True)
    shutil.rmtree(out / _TEMPORARY, ignore_errors=True)
    return OutFolder(out)


def _is_ours(name: str) -> bool:
    """Recognise files left by an export that was killed while writing its marker."""
    return name == _TEMPORARY or name.startswith(f".{MARKER}.")


def _expect_same(out: Path, found: Marker, wanted: Marker) -> None:
    before, now = (marker.model_dump(mode="json", exclude={"complete"}) for marker in (found, wanted))
    if before == now:
        return
    if found.format != wanted.format:
        what = f"expected an export as {wanted.format}, found one as {found.format}"
    elif found.limits != wanted.limits:
        what = f"expected parts of {wanted.limits}, found parts of {found.limits}"
    elif found.pad_frames != wanted.pad_frames:
        what = f"expected clips padded to {wanted.pad_frames} frames, found an export with {found.pad_frames}"
    else:
        what = f"holds an export of another dataset or another state ({found.num_clips} clips, {found.dataset.codec})"
    raise ConfigError(f"{out}: {what}; choose another folder")
