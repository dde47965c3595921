"""How a run ends that a user has to do something about: one sentence on the terminal, and an exit code."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from solfa.errors import AudioError, ConfigError, SolfaError, StoreError

logger = logging.getLogger(__name__)


@contextmanager
def sentences() -> Iterator[None]:
    """Answer an error that a user can act on with its sentence; for entry points of others, such as Dora's."""
    try:
        yield
    except SolfaError as error:
        leave(error)


def leave(error: SolfaError) -> NoReturn:
    """End this process: exit code 2 for bad input, 1 for a run that had to stop."""
    sys.stderr.write(f"solfa: {error}\n")
    sys.stderr.flush()
    sys.exit(2 if isinstance(error, ConfigError | StoreError | AudioError) else 1)
