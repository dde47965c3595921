"""A folder that can be filled: it is new, empty, or holds only our own files, and it can be written to."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from solfa.errors import ConfigError


def expect_no_broken_link(folder: Path, advice: str) -> None:
    """Refuse a link to nothing, which can be neither filled nor created."""
    if folder.is_symlink() and not folder.exists():
        raise ConfigError(f"{folder}: expected a folder, found a broken link; {advice}")


def expect_free(
    folder: Path,
    advice: str,
    *,
    expected: str = "a new or empty folder",
    is_ours: Callable[[str], bool] = lambda name: False,
) -> None:
    """Refuse a file, or a folder with foreign files in it, before anything is written; `is_ours` knows our names."""
    expect_no_broken_link(folder, advice)
    if folder.is_dir():
        foreign = sorted(path.name for path in folder.iterdir() if not is_ours(path.name))
    elif folder.exists():
        raise ConfigError(f"{folder}: expected {expected}, found a file; {advice}")
    else:
        return
    if foreign:
        more = f" and {len(foreign) - 1} more" if foreign[1:] else ""
        raise ConfigError(f"{folder}: expected {expected}, found {foreign[0]!r}{more} in it; {advice}")


def expect_writable(folder: Path, advice: str) -> None:
    """Refuse a folder in which no file can be created; it need not exist yet, and nothing is left behind."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written to ({error.strerror}); {advice}") from None
