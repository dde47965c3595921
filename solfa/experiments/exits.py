"""How a run ends that a user has to do something about: one sentence on the terminal, and an exit code."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from solfa.errors import SolfaError, exit_code, spelled


@contextmanager
def sentences() -> Iterator[None]:
    """Answer an error that a user can act on with its sentence; for entry points of others, such as Dora's."""
    try:
        yield
    except SolfaError as error:
        leave(error)


def leave(error: SolfaError) -> NoReturn:
    """End this process with the sentence of an error and the exit code that belongs to it."""
    sys.stderr.write(f"solfa: {spelled(str(error), _dora_flag)}\n")
    sys.stderr.flush()
    sys.exit(exit_code(error))


def _dora_flag(name: str, value: str | None) -> str | None:
    """Spell what `dora run` has a flag for."""
    return f"--{name}" if (name, value) == ("clear", "True") else None
