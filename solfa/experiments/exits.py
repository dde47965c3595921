"""End a run on an error that the user can fix: one sentence on the terminal, and an exit code."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from solfa.environment.memory import allocation_fault
from solfa.errors import SolfaError, exit_code, spelled


@contextmanager
def sentences() -> Iterator[None]:
    """Show errors that the user can fix as one sentence; for entry points that are not ours, such as Dora's."""
    try:
        yield
    except SolfaError as error:
        leave(error)
    except (MemoryError, RuntimeError) as error:
        fault = allocation_fault(error)
        if fault is None:
            raise
        leave(SolfaError(fault))


def leave(error: SolfaError) -> NoReturn:
    """Print the error's sentence and exit with its code."""
    sys.stderr.write(f"solfa: {spelled(str(error), _dora_flag)}\n")
    sys.stderr.flush()
    sys.exit(exit_code(error))


def _dora_flag(name: str, value: str | None) -> str | None:
    """Spell a parameter as a flag of `dora run`, if it has one."""
    return f"--{name}" if (name, value) == ("clear", "True") else None
