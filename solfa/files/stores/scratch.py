"""Files of this machine in which something is written before it goes to an object store.

They are in a folder per process under the system's temporary folder (TMPDIR), which goes when the process ends; what
a killed one left goes when the next one starts.
"""

import atexit
import os
import platform
import re
import secrets
import shutil
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

_PREFIX = "solfa-scratch"


def scratch_path(name: str) -> Path:
    """Name a file that nobody else uses; its folder exists."""
    return _folder(os.getpid()) / f"{name}.{secrets.token_hex(4)}"


@lru_cache(maxsize=1)
def _folder(pid: int) -> Path:
    _remove_orphans(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}.{platform.node()}.{pid}."))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _remove_orphans(parent: Path) -> None:
    """Remove the folders of processes of this machine that no longer exist."""
    if sys.platform == "win32":
        return  # where asking for a process would end it
    name = re.compile(rf"{re.escape(_PREFIX)}\.{re.escape(platform.node())}\.(\d+)\..+")
    for folder in parent.glob(f"{_PREFIX}.*"):
        found = name.fullmatch(folder.name)
        if found is None or folder.is_symlink() or folder.stat().st_uid != os.getuid():
            continue
        try:
            os.kill(int(found[1]), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except PermissionError:
            continue
