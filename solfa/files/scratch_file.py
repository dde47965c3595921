"""Bytes that a process puts aside to read again: a few in memory, more of them in a file without a name."""

import io
import tempfile
from contextlib import AbstractContextManager
from typing import IO

BYTES_IN_MEMORY = 1 << 20
"""Up to here, no file is made."""


class ScratchFile(AbstractContextManager["ScratchFile"]):
    """Bytes of this process alone, which are gone when it closes them or ends, however it does.

    Where a file cannot be made or has no more room, they stay in memory: to need more of it is better than to stop.
    """

    def __init__(self, bytes_in_memory: int = BYTES_IN_MEMORY) -> None:
        self._file: IO[bytes] = io.BytesIO()
        self._most = bytes_in_memory
        self.num_bytes = 0

    def append(self, data: bytes) -> int:
        """Put bytes aside; return where they begin."""
        begin = self.num_bytes
        self.num_bytes += len(data)
        if self.is_in_memory and self.num_bytes > self._most:
            self._move_to_disk(begin)
        if not _write(self._file, begin, data):
            kept = self.read(0, begin)
            self._file.close()
            self._stay_in_memory(kept)
            _write(self._file, begin, data)
        return begin

    def read(self, begin: int, num_bytes: int) -> bytes:
        """Read bytes again; fewer where they end."""
        self._file.seek(begin)
        data = self._file.read(num_bytes)
        while len(data) < num_bytes and (more := self._file.read(num_bytes - len(data))):  # 2 GiB at most at once
            data += more
        return data

    @property
    def is_in_memory(self) -> bool:
        return isinstance(self._file, io.BytesIO)

    def close(self) -> None:
        """Forget everything."""
        self._file.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def _move_to_disk(self, num_bytes: int) -> None:
        kept = self.read(0, num_bytes)
        try:
            # Unbuffered, so that what could not be written is known at once.
            file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        except OSError:
            self._stay_in_memory(kept)
            return
        if _write(file, 0, kept):
            self._file = file
        else:
            file.close()
            self._stay_in_memory(kept)

    def _stay_in_memory(self, kept: bytes) -> None:
        self._file, self._most = io.BytesIO(kept), 1 << 62


def _write(file: IO[bytes], begin: int, data: bytes) -> bool:
    """Write bytes; say whether there was room for all of them."""
    try:
        file.seek(begin)
        return file.write(data) == len(data)
    except OSError:
        return False
