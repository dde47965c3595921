"""Environments of peers: what Solfa is compared with is installed where it cannot change what Solfa has."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def python_of(environment: Path, *installs: Sequence[str]) -> Path:
    """Make a virtual environment unless it is complete, with one call of pip for each of `installs`; return its Python.

    It is complete when the last call has succeeded, so one that was interrupted is made again.
    """
    python, complete = environment / "bin" / "python", environment / "complete"
    if not complete.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
        for arguments in installs:
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *arguments], check=True)
        complete.touch()
    return python.absolute()
