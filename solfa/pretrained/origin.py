"""Where weights come from, as cards tell it: a name that means something on other machines, and a hash."""

from pathlib import Path
from typing import TypedDict


class Origin(TypedDict):
    """The weights that a model started from or uses; plain values, because checkpoints and exports hold it."""

    source: str
    sha256: str


def origin(location: str, sha256: str) -> Origin:
    """Describe weights by a Hub id, or by the name of a folder here without the way to it."""
    path = Path(location).expanduser()
    if path.is_file():
        return Origin(source=f"{path.resolve().parent.name}/{path.name}", sha256=sha256)
    return Origin(source=path.resolve().name if path.is_dir() else location, sha256=sha256)
