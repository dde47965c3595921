"""Follow a text file that another process writes, like `tail -F`: through truncation, rotation and a late start."""

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO

BLOCK_BYTES = 1 << 16


def follow_lines(path: Path, wait: Callable[[], bool], *, last: int = 200) -> Iterator[str]:
    """Yield the `last` lines of a file and then every line that is added, without line endings.

    `wait` is called whenever there is nothing new, and ends the iteration by returning False. A file that does not
    exist yet is waited for; one that shrank or was replaced is read from the start.
    """
    offset = tail_offset(path, last) if path.is_file() else 0
    while True:
        if path.is_file():
            with path.open("rb") as file:
                file.seek(offset)
                if not (yield from _follow_open(path, file, wait)):
                    return
        elif not wait():
            return
        offset = 0


def tail_offset(path: Path, lines: int) -> int:
    """Find where the last lines of a file start, reading no more of it than needed."""
    with path.open("rb") as file:
        start = end = file.seek(0, os.SEEK_END)
        found = b""
        while start > 0 and found.count(b"\n") <= lines:
            start = max(0, start - BLOCK_BYTES)
            file.seek(start)
            found = file.read(end - start)
    kept = found.removesuffix(b"\n").split(b"\n")[-lines:] if lines and found else []
    ending = 1 if found.endswith(b"\n") and kept else 0
    return end - ending - len(b"\n".join(kept))


def _follow_open(path: Path, file: BinaryIO, wait: Callable[[], bool]) -> Generator[str, None, bool]:
    """Yield lines until another file takes the name (returns True) or the reader has had enough (False)."""
    rest = b""
    while True:
        # Checked before reading, so that nothing written just before the replacement is lost.
        is_replaced = path.exists() and not os.path.samestat(path.stat(), os.fstat(file.fileno()))
        *lines, rest = (rest + file.read()).split(b"\n")
        yield from map(_text, lines)
        if is_replaced or not wait():
            if rest:
                yield _text(rest)
            return is_replaced
        if os.fstat(file.fileno()).st_size < file.tell():
            file.seek(0)
            rest = b""


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", errors="replace")
