"""A store that is a folder of this machine: every step is that of `solfa.files.whole_files`."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from solfa.errors import StoreError
from solfa.files.stores.protocol import Entry
from solfa.files.whole_files import create_once, publish, put_in_place, remove_files, temporary_path

CHUNK_BYTES = 4 << 20


@final
@dataclass(frozen=True)
class LocalStore:
    """The files below a folder.

    >>> from pathlib import Path
    >>> from solfa.files import LocalStore
    >>> store = LocalStore(Path("shared"))
    >>> store.create("a/b.txt", b"first"), store.create("a/b.txt", b"second"), store.read("a/b.txt")
    (True, False, b'first')
    """

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def file(self, key: str) -> Path:
        """Return the path of a file, which is not looked at."""
        return self.path / key

    def create(self, key: str, content: bytes | Path) -> bool:
        if isinstance(content, Path):
            return publish(content, self.file(key))
        return create_once(self.path, self.file(key), content)

    def replace(self, key: str, content: bytes | Path) -> None:
        temporary = content if isinstance(content, Path) else self.temporary(Path(key).name)
        try:
            if isinstance(content, bytes):
                temporary.write_bytes(content)
            put_in_place(temporary, self.file(key))
        finally:
            temporary.unlink(missing_ok=True)

    def read(self, key: str) -> bytes:
        expect_no_pipe(self.file(key))
        return self.file(key).read_bytes()

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        expect_no_pipe(self.file(key))
        found = []
        with self.file(key).open("rb") as file:
            for start, stop in ranges:
                file.seek(start)
                found.append(file.read(stop - start))
        return found

    def stream(self, key: str) -> Iterator[bytes]:
        expect_no_pipe(self.file(key))
        with self.file(key).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def head(self, key: str) -> Entry | None:
        path = self.file(key)
        if not path.is_file():  # a folder, a pipe
            return None
        status = path.stat()
        return Entry(key, status.st_size, str(status.st_mtime_ns), status.st_mtime)

    def names(self, folder: str) -> list[str]:
        path = self.file(folder)
        return sorted(found.name for found in path.iterdir()) if path.is_dir() else []

    def list(self, folder: str = "", after: str | None = None) -> Iterator[Entry]:
        walked = os.walk(self.file(folder))  # which lists links to folders, but does not enter them
        paths = (Path(below, name) for below, _, names in walked for name in names)
        for key in sorted(path.relative_to(self.path).as_posix() for path in paths):
            entry = self.head(key) if after is None or key > after else None
            if entry is not None:
                yield entry

    def delete(self, keys: Iterable[str]) -> None:
        paths = [self.file(key) for key in keys]
        for folder in sorted({path.parent for path in paths if path.parent.is_dir()}):
            remove_files(folder, [path.name for path in paths if path.parent == folder])

    def temporary(self, name: str) -> Path:
        return temporary_path(self.path, name)


def expect_no_pipe(path: Path) -> None:
    """Refuse what is neither a file nor a folder: reading a pipe waits forever."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise StoreError(f"{path}: expected a file, found a pipe or a device; another file took its place")
