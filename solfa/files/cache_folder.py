"""Where this machine keeps what it fetched from elsewhere, for all processes of a user."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder of SOLFA_CACHE_DIR, or `solfa` in that of XDG_CACHE_HOME, or in `~/.cache`."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("SOLFA_CACHE_DIR") or Path(home, "solfa")).expanduser()
