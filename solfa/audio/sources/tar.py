"""WebDataset tars, read header by header: members are never extracted, only their byte ranges are recorded.

Consecutive members that share a name up to the first dot form a group: `0001.flac 0001.json 0001.txt`.
"""

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from solfa.audio.decoders.byte_range import open_range, regular_file_fault
from solfa.audio.file_types import is_audio_name
from solfa.audio.recording import Location, Recording
from solfa.audio.sources.keys import UniqueKeys
from solfa.audio.sources.location import file_version
from solfa.audio.sources.metadata import MAX_SIDECAR_BYTES, SIDECAR_ERROR, merge_sidecars
from solfa.files.printable_names import escape_path
from solfa.files.stores.bucket_store import BucketStore
from solfa.files.stores.object_file import ObjectFile

COMPRESSED = "is compressed, so its members cannot be read in place; decompress it once (gunzip, unxz, zstd -d)"
_MAGICS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")


class TarMember(NamedTuple):
    """A tar member: its escaped name, where its bytes are, and why they must not be read, if so."""

    name: str
    offset: int
    size: int
    error: str | None


@dataclass(frozen=True)
class TarSource:
    """The members of one or several tars."""

    root: Path
    tars: tuple[Path, ...]

    def recordings(self) -> Iterator[Recording]:
        for path in self.tars:
            relative = path.relative_to(self.root) if path.is_relative_to(self.root) else path
            yield from tar_recordings(path, uri=escape_path(relative))


@dataclass(frozen=True)
class BucketTarSource:
    """The members of one or several tars of an object store, by their names below it."""

    root: BucketStore
    tars: tuple[str, ...]

    def recordings(self) -> Iterator[Recording]:
        for name in self.tars:
            yield from tar_recordings(ObjectFile(self.root, name), uri=escape_path(name))


def tar_fault(path: Path | ObjectFile) -> str | None:
    """Say why a tar cannot be read in place; None if it can."""
    if isinstance(path, Path):
        fault = regular_file_fault(path)
        if fault is not None:
            return fault
    elif not path.exists():
        return "no such file"
    elif file_version(path)[0] == 0:
        return "has 0 bytes"
    with _opened(path) as file:
        head = file.read(8)
    return COMPRESSED if head.startswith(_MAGICS) else None


@contextmanager
def _opened(path: Path | ObjectFile) -> Iterator[io.BufferedReader]:
    if isinstance(path, Path):
        with path.open("rb") as file:
            yield file
    else:
        with open_range(Location(path)) as parts:
            yield io.BufferedReader(parts, tarfile.BLOCKSIZE)


class _HeaderFile(io.RawIOBase):
    """The file that `tarfile` reads headers from; it refuses huge reads and going back, which could loop forever."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._furthest = 0

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= MAX_SIDECAR_BYTES:
            raise tarfile.ReadError(f"a header of {size:,} bytes")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence != io.SEEK_SET or offset < self._furthest:
            raise tarfile.ReadError("a header that points back")
        self._furthest = offset
        return self._file.seek(offset)

    def tell(self) -> int:
        return self._file.tell()


def _members(file: io.BufferedReader, num_bytes: int) -> Iterator[TarMember]:
    """List the members; if the tar is damaged, the last member has no name and says why."""
    try:
        yield from _intact_members(file, num_bytes)
    except (tarfile.TarError, OSError, EOFError) as error:
        yield TarMember("", 0, 0, f"the tar is damaged: {error}")


def _intact_members(file: io.BufferedReader, num_bytes: int) -> Iterator[TarMember]:
    with tarfile.open(fileobj=_HeaderFile(file), mode="r:", errors="surrogateescape") as archive:
        for info in archive:
            if not info.isdir():
                yield TarMember(escape_path(info.name), info.offset_data, info.size, _fault(info, num_bytes))
            # tarfile would keep every header it has seen in memory.
            archive.members.clear()  # type: ignore[attr-defined]
        # tarfile takes an invalid header for the end; the real end is a block of zeros, or nothing.
        file.seek(archive.offset)
        if file.read(tarfile.BLOCKSIZE).strip(b"\0"):
            raise tarfile.ReadError(f"an invalid header at byte {archive.offset:,}")


def _fault(info: tarfile.TarInfo, num_bytes: int) -> str | None:
    path = PurePosixPath(info.name)
    if path.is_absolute() or ".." in path.parts:
        return "its name leads out of the tar"
    if not info.isreg() or info.issparse():
        return "is a link, a device or a sparse file within the tar, not plain bytes"
    if info.offset_data + info.size > num_bytes:
        return f"the tar ends {info.offset_data + info.size - num_bytes:,} bytes before the member does"
    return None


def tar_recordings(path: Path | ObjectFile, *, uri: str) -> Iterator[Recording]:
    """Describe every audio member; a tar that cannot be read, or read on, gives one recording with a reason."""
    fault = tar_fault(path)
    if fault is not None:
        yield Recording(key=uri, uri=uri, error=fault)
        return
    keys = UniqueKeys()
    with _opened(path) as file:
        for _, group in groupby(_members(file, file_version(path)[0]), _group_of):
            yield from _group_recordings(path, list(group), uri, keys)


def _group_of(member: TarMember) -> str:
    folder, _, name = member.name.rpartition("/")
    return f"{folder}/{name.partition('.')[0]}"


def _group_recordings(
    path: Path | ObjectFile, group: list[TarMember], uri: str, keys: UniqueKeys
) -> Iterator[Recording]:
    by_name = {member.name: member for member in group}
    size_bytes, mtime_ns = file_version(path)
    for member in group:
        if not member.name:
            yield Recording(key=keys.claim(uri), uri=uri, error=member.error)
            continue
        file_name = member.name.rpartition("/")[2]
        if not is_audio_name(file_name) or file_name.startswith("."):
            continue
        key = keys.claim(f"{uri}/{member.name.removeprefix('./')}")
        if member.error is not None:
            yield Recording(key=key, uri=uri, member=member.name, error=member.error)
            continue
        # `song.v1.wav` belongs to `song.v1.json` or, by WebDataset's rule, to `song.json`.
        stems = (member.name.rpartition(".")[0], _group_of(member).removeprefix("/"))
        text, text_fault = _sidecar(path, by_name, stems, ".txt")
        object_text, object_fault = _sidecar(path, by_name, stems, ".json")
        caption, metadata = merge_sidecars(text, object_text)
        faults = [fault for fault in (metadata.get(SIDECAR_ERROR), text_fault, object_fault) if fault]
        yield Recording(
            key=key,
            uri=uri,
            size_bytes=size_bytes,
            mtime_ns=mtime_ns,
            member=member.name,
            member_offset=member.offset,
            member_size=member.size,
            caption=caption,
            metadata=metadata | ({SIDECAR_ERROR: "; ".join(faults)} if faults else {}),
        )


def _sidecar(
    path: Path | ObjectFile, by_name: dict[str, TarMember], stems: tuple[str, str], extension: str
) -> tuple[bytes | None, str | None]:
    member = next((by_name[stem + extension] for stem in stems if stem + extension in by_name), None)
    if member is None:
        return None, None
    if member.error is not None or member.size > MAX_SIDECAR_BYTES:
        return None, f"{extension}: {member.error or f'is larger than {MAX_SIDECAR_BYTES:,} bytes'}"
    with _opened(path) as file:
        file.seek(member.offset)
        return file.read(member.size), None
