"""Errors that are nobody's sentence yet: memory that ran out, a full disk, and whatever nobody expected.

Each becomes one sentence for the terminal. The traceback goes into a log: the experiment's, whose path comes as a note
on the error (`add_note`), or a file of its own.
"""

import errno
import os
import platform
import re
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from solfa.environment.person import data_directory
from solfa.errors import ConfigError
from solfa.spelling import size

FULL = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "your quota of the disk is used up"}
_LIMIT = {errno.EFBIG: "the file is larger than this system or shell allows (`ulimit -f`)"}
_CPU = re.compile(r"DefaultCPUAllocator: (can't allocate|not enough) memory: you tried to allocate (?P<bytes>\d+)")
_CUDA = re.compile(r"out of memory.*?Tried to allocate (?P<size>[\d.]+ \w+)", re.DOTALL)
_UNCOUNTABLE = "Storage size calculation overflowed"
_TRACEBACK = "the traceback"
OUT_OF_MEMORY, NO_SPACE = "out of memory", "no space"


def disk_fault(error: BaseException) -> str | None:
    """Say that something could not be written for lack of space; torch wraps that error in others."""
    reasons = {**FULL, **_LIMIT}
    for part in _chain(error):
        if isinstance(part, OSError) and part.errno in reasons:
            where = f"{part.filename}: " if part.filename else ""
            return f"{where}{reasons[part.errno]}"
    return None


def memory_fault(error: BaseException) -> str | None:
    """Say that memory ran out, on the host or on a GPU, and what was asked for."""
    text = str(error)
    if found := _CPU.search(text):
        return f"out of memory: {size(int(found['bytes']))} more are not there"
    if _UNCOUNTABLE in text:
        return "out of memory: more than can be counted was asked for at once"
    if isinstance(error, MemoryError):
        return "out of memory" + (f": {_first_line(text)}" if text else "")
    if type(error).__name__ == "OutOfMemoryError" or (isinstance(error, RuntimeError) and "out of memory" in text):
        asked = _CUDA.search(text)
        return "out of memory on the device" + (f": {asked['size']} more are not there" if asked else "")
    return None


def fault_sentence(error: BaseException, advice: Mapping[str, str] | None = None) -> str:
    """Describe an error that no code expected in one sentence, with the notes on it.

    `advice` may say what helps against `OUT_OF_MEMORY` and `NO_SPACE`, if no note does.
    """
    advice, notes = advice or {}, list(getattr(error, "__notes__", []))
    is_advised = any(not note.startswith(_TRACEBACK) for note in notes)
    if (what := memory_fault(error)) is not None:
        hint = advice.get(OUT_OF_MEMORY, "close other programs, or use a machine with more memory")
        parts = [what] if is_advised else [what, hint]
    elif (what := disk_fault(error)) is not None:
        hint = advice.get(NO_SPACE, "free some space and run the same command again")
        parts = [what] if is_advised else [what, hint]
    elif isinstance(error, OSError):
        parts = [(f"{error.filename}: " if error.filename else "") + (error.strerror or str(error))]
    else:
        parts = [f"stopped by an unexpected error ({type(error).__name__}: {_first_line(str(error))})"]
    return "; ".join([*parts, *notes])


def note_traceback(error: BaseException, environ: Mapping[str, str], name: str) -> None:
    """Write the traceback of an error to a file, and note on the error where it is, unless a note says so already."""
    if any(note.startswith(_TRACEBACK) for note in getattr(error, "__notes__", [])):
        return
    text = "".join(traceback.format_exception(error))
    file = f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-{os.getpid()}.log"
    for folder in _log_folders(environ):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
        except OSError:
            continue  # this disk may be the full one
        error.add_note(traceback_note(folder / file))
        return
    error.add_note(f"{_TRACEBACK} could not be written anywhere:\n{text}")


def traceback_note(log: Path) -> str:
    """Say where a traceback is, as a note on its error."""
    return f"{_TRACEBACK} is in {log}"


def _log_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    with suppress(ConfigError):  # there is no home
        yield data_directory(environ, platform.system()) / "errors"
    yield Path(tempfile.gettempdir())


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0] or "no message"
