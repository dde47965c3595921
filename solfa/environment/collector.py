"""Python's search for unreachable cycles, put off while large libraries are imported.

It looks through all objects again and again as their number grows: for torch, that is a fifth of the time to import it.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LARGE = 200
"""Modules; what as many of them hold is never given up, and need never be looked through."""


@contextmanager
def collector_paused() -> Iterator[None]:
    """Do not look for cycles; afterwards it is as it was before, but passes over what was imported."""
    was_enabled, before = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) - before >= _LARGE:
            gc.freeze()
        if was_enabled:
            gc.enable()
