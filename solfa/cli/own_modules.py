"""Modules of a user's own: solvers and grids in the working directory, as the `dora` command finds them."""

import sys
from pathlib import Path


def reach_own_modules() -> None:
    """Let Python import from the working directory, first of all places."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
