"""Follow a text file that another process writes, as `tail -F` does: through truncation, rotation and a late start."""

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO

BLOCK_BYTES = 1 << 16


def follow_lines(path: Path, wait: Callable[[], bool], *, last: int = 200) -> Iterator[str]:
    """Yield the `last` lines of a file and then every line that is added, without its end.

    `wait` is called whenever there is nothing new, and ends it by answering False. A file that is not there yet is
    waited for; one that became shorter, or was replaced by another of the same name, is read from its beginning.
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
    """Find where the last so many lines of a file begin, reading no more of it than they need."""
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
    """Yield the lines of one file until another takes its name (True) or nobody wants more (False)."""
    rest = b""
    while True:
        # Asked before reading: what was written until the file was replaced is not lost.
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
