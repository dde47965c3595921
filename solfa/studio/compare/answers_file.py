"""The answers of all listening tests: one JSON object per line, appended and on the disk before the next page.

A process that is killed while it writes leaves at most the beginning of a line, which is not read.
"""

import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class AnswersFile:
    """A file that only grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def append(self, answer: Mapping[str, Any]) -> None:
        """Write an answer; it is on the disk when this returns."""
        line = json.dumps(answer, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+") as file:
                end = file.seek(0, os.SEEK_END)
                if end:
                    file.seek(end - 1)
                    if file.read(1) != b"\n":  # somebody was killed here
                        line = b"\n" + line
                file.write(line)
                file.flush()
                os.fsync(file.fileno())

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        for line in content.split(b"\n"):
            try:
                answer = json.loads(line)
            except ValueError:  # the beginning of a line, or the end of the file
                continue
            if isinstance(answer, dict):
                yield answer
