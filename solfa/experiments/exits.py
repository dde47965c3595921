"""End a run on an error: one sentence on the terminal, and an exit code."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from solfa.environment.faults import fault_sentence, note_traceback
from solfa.errors import SolfaError, exit_code, spelled


@contextmanager
def sentences() -> Iterator[None]:
    """Show errors as one sentence; for entry points that are not ours, such as Dora's."""
    try:
        yield
    except SolfaError as error:
        leave(error)
    except Exception as error:
        note_traceback(error, os.environ, "run")
        _write(fault_sentence(error))
        sys.exit(1)


def leave(error: SolfaError) -> NoReturn:
    """Print the error's sentence and exit with its code."""
    _write(spelled(str(error), _dora_flag))
    sys.exit(exit_code(error))


def _write(sentence: str) -> None:
    sys.stderr.write(f"solfa: {sentence}\n")
    sys.stderr.flush()


def _dora_flag(name: str, value: str | None) -> str | None:
    """Spell a parameter as a flag of `dora run`, if it has one."""
    return f"--{name}" if (name, value) == ("clear", "True") else None
