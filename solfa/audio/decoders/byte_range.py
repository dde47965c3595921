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

from solfa.audio.recording import Location
from solfa.errors import AudioError

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


class ByteRange(io.RawIOBase):
    """A read-only view of `size` bytes of an open file from `offset`, preceded by `prefix`."""

    def __init__(self, descriptor: int, offset: int, size: int, prefix: bytes = b"") -> None:
        self.descriptor = descriptor
        self.offset = offset
        self.prefix = prefix
        self.size = len(prefix) + size
        self.fault: OSError | None = None
        self._position = 0

    def view(self, start: int, stop: int, prefix: bytes = b"") -> "ByteRange":
        """View a part of this range (which must not have a prefix)."""
        assert not self.prefix
        return ByteRange(self.descriptor, self.offset + start, stop - start, prefix)

    def bytes_at(self, position: int, count: int) -> bytes:
        """Read up to `count` bytes at `position` without moving the position of `read`."""
        prefix = self.prefix[position : position + count]
        position += len(prefix)
        wanted = max(0, min(count - len(prefix), self.size - position))
        if not wanted:
            return prefix
        return prefix + _read_at(self.descriptor, wanted, self.offset + position - len(self.prefix))

    def readinto(self, buffer: "memoryview[int] | bytearray", /) -> int:  # type: ignore[override]
        try:
            data = self.bytes_at(self._position, len(buffer))
        except OSError as error:
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


def regular_file_fault(path: Path) -> str | None:
    """Say why a path is not a readable regular file, without opening it; None if it is one."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "the link is broken" if path.is_symlink() else "no such file"
    except (OSError, ValueError) as error:
        return _reason(error)
    if not stat.S_ISREG(mode):
        return f"is {_KINDS.get(stat.S_IFMT(mode), 'something else')}, not a regular file"
    return None if os.access(path, os.R_OK) else "permission denied"


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


@contextmanager
def open_range(location: Location) -> Iterator[ByteRange]:
    """Open the bytes of a recording."""
    fault = regular_file_fault(location.path)
    if fault is not None:
        raise AudioError(fault)
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
    size = status.st_size - location.offset if location.size is None else location.size
    if location.offset + size > status.st_size:
        raise AudioError(f"the tar ends {location.offset + size - status.st_size:,} bytes before the member does")
    if size <= 0:
        raise AudioError("has 0 bytes")
    return ByteRange(descriptor, location.offset, size)
