"""Read a file, or a byte range of a tar, as if it were a separate file.

Only regular files are ever opened: a FIFO would block forever, a device may never end.
"""

import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from solfa.audio.recording import Location
from solfa.errors import AudioError, SolfaError
from solfa.files.stores.object_file import ObjectFile, ObjectReader

MAX_MEMBER_BYTES = 2**31
"""Larger tar members are refused: no recording in a WebDataset is that large, but a damaged header may say so."""

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


# O_NONBLOCK: should the file have become a FIFO since it was looked at, opening it still returns.
# O_BINARY is Windows': without it, line ends are translated and a byte 26 ends the file.
if sys.platform == "win32":
    _OPEN = os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT
else:
    _OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class ByteSource(Protocol):
    """Something whose bytes can be read at any position."""

    @property
    def identity(self) -> tuple[object, ...]:
        """What changes when the content does."""
        ...

    def read_at(self, count: int, position: int) -> bytes: ...


class OpenedFile:
    """A file of this machine."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def identity(self) -> tuple[object, ...]:
        status = os.fstat(self._descriptor)
        return (status.st_dev, status.st_ino, status.st_mtime_ns)

    def read_at(self, count: int, position: int) -> bytes:
        return _read_at(self._descriptor, count, position)


class ByteRange(io.RawIOBase):
    """A read-only view of `size` bytes of an open file from `offset`, preceded by `prefix`."""

    def __init__(self, source: ByteSource, offset: int, size: int, prefix: bytes = b"") -> None:
        self.source = source
        self.offset = offset
        self.prefix = prefix
        self.size = len(prefix) + size
        self.fault: OSError | SolfaError | None = None
        self._position = 0

    def view(self, start: int, stop: int, prefix: bytes = b"") -> "ByteRange":
        """View a part of this range (which must not have a prefix)."""
        assert not self.prefix
        return ByteRange(self.source, self.offset + start, stop - start, prefix)

    def bytes_at(self, position: int, count: int) -> bytes:
        """Read up to `count` bytes at `position` without moving the position of `read`."""
        prefix = self.prefix[position : position + count]
        position += len(prefix)
        wanted = max(0, min(count - len(prefix), self.size - position))
        if not wanted:
            return prefix
        return prefix + self.source.read_at(wanted, self.offset + position - len(self.prefix))

    def readinto(self, buffer: "memoryview[int] | bytearray", /) -> int:  # type: ignore[override]
        try:
            data = self.bytes_at(self._position, len(buffer))
        except (OSError, SolfaError) as error:
            # An exception cannot pass through the decoder's C code: end the data here and let the caller check `fault`.
            self.fault = error
            return 0
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position


def _read_at(descriptor: int, count: int, position: int) -> bytes:
    if sys.platform == "win32":  # which has no pread; each range is read by one thread, so the position is its own
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.read(descriptor, count)
    return os.pread(descriptor, count, position)


def regular_file_fault(path: str | Path) -> str | None:
    """Say why a path is not a readable regular file, without opening it; None if it is one."""
    status = regular_file_status(path)
    return status if isinstance(status, str) else None


def regular_file_status(path: str | Path) -> os.stat_result | str:
    """Look at a readable regular file without opening it, or say why it is none."""
    status = _file_status(path)
    return status if isinstance(status, str) or os.access(path, os.R_OK) else "permission denied"


def _file_status(path: str | Path) -> os.stat_result | str:
    """Look at a regular file, or say why it is none; whether it may be read shows when it is opened."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a path may be a text, which takes a fifth of the time
    except FileNotFoundError:
        return "the link is broken" if os.path.islink(path) else "no such file"  # noqa: PTH114
    except (OSError, ValueError) as error:
        return _reason(error)
    if not stat.S_ISREG(status.st_mode):
        return f"is {_KINDS.get(stat.S_IFMT(status.st_mode), 'something else')}, not a regular file"
    return status


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


@contextmanager
def open_range(location: Location, share: float = 0.0) -> Iterator[ByteRange]:
    """Open the bytes of a recording, of which about a `share` will be read on end."""
    if not isinstance(location.path, Path):
        size = _object_size(location.path)
        own = _size(location, size)
        reader = ObjectReader(location.path, size, ahead_bytes=round(share * own))
        try:
            yield ByteRange(reader, location.offset, own)
        except AudioError:
            # A store that cannot be reached says nothing about a recording: the run ends, and the clip has not failed.
            if reader.fault is not None:
                raise reader.fault from None
            raise
        return
    status = _file_status(location.path)
    if isinstance(status, str):
        raise AudioError(status)
    if location.size is not None and location.size > MAX_MEMBER_BYTES:
        raise AudioError(
            f"the tar member has {location.size:,} bytes, more than the limit of {MAX_MEMBER_BYTES:,}; "
            "store it as a separate file"
        )
    try:
        descriptor = os.open(location.path, _OPEN)
    except OSError as error:
        raise AudioError(_reason(error)) from None
    try:
        yield _range(descriptor, location)
    finally:
        os.close(descriptor)


def _range(descriptor: int, location: Location) -> ByteRange:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise AudioError("is not a regular file")
    return ByteRange(OpenedFile(descriptor), location.offset, _size(location, status.st_size))


def _object_size(file: ObjectFile) -> int:
    if file.entry is None:
        raise AudioError("no such file")
    return file.entry.size_bytes


def _size(location: Location, file_size: int) -> int:
    size = file_size - location.offset if location.size is None else location.size
    if location.offset + size > file_size:
        raise AudioError(f"the tar ends {location.offset + size - file_size:,} bytes before the member does")
    if size <= 0:
        raise AudioError("has 0 bytes")
    return size
