"""Make the user's own solvers and grids in the working directory importable, as the `dora` command does."""

import sys
from pathlib import Path


def reach_own_modules() -> None:
    """Put the working directory first on Python's import path."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
