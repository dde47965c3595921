"""The log of a run: a file per process in the experiment's folder, and the terminal of the first."""

import logging
import sys
from pathlib import Path
from typing import TextIO

from solfa.xp.layout import log_path

_QUIET = ("httpx", "httpcore", "urllib3", "filelock", "fsspec", "submitit", "lightning_fabric", "matplotlib", "numba")
_MARK = "_of_solfa"


FILE_ONLY = {"file_only": True}
"""The `extra` of a message that reaches the terminal some other way."""


class _Terminal(logging.StreamHandler[TextIO]):
    """Writes to whatever is standard error at the moment: a progress bar may have replaced it."""

    def emit(self, record: logging.LogRecord) -> None:
        if not hasattr(record, "file_only"):
            self.stream = sys.stderr
            super().emit(record)


def log_to(folder: Path, rank: int) -> None:
    """Append this process's log to its file, and in the first process also print it to the terminal."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if hasattr(handler, _MARK)]:
        root.removeHandler(handler)
        handler.close()
    folder.mkdir(parents=True, exist_ok=True)
    file = logging.FileHandler(log_path(folder, rank), encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handlers: list[logging.Handler] = [file]
    if rank == 0:
        terminal = _Terminal()
        terminal.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        handlers.append(terminal)
    for handler in handlers:
        setattr(handler, _MARK, True)
        root.addHandler(handler)
    root.setLevel(logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)
