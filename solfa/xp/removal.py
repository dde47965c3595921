"""Remove experiments: all of a folder or nothing, and only what certainly is an experiment that nobody runs.

    xps/9521b0af ──► rename ──► xps/.9521b0af.TOKEN.removed ──► delete

Nobody sees a folder half removed, because hidden ones are not listed. If the process is killed before all is deleted,
the next removal in the same place deletes the rest.
"""

import re
import secrets
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from solfa.errors import ConfigError
from solfa.files.crash_points import crash_point
from solfa.files.whole_files import expect_real_folder
from solfa.xp.layout import ARGV, GRIDS, LOCK
from solfa.xp.lock import locked, read_lock
from solfa.xp.record import find_experiment, list_experiments, read_experiment

_REMOVED = re.compile(r"\..+\.[0-9a-f]{8}\.removed")


def find_removable(xps_dir: Path, text: str) -> Path:
    """Find an experiment as `find_experiment` does, and refuse a link or a folder somewhere else."""
    if "/" in text and not text.startswith("//"):
        expect_real_folder(Path(text))
    folder = find_experiment(xps_dir, text)
    if folder.resolve().parent != xps_dir.resolve():
        raise ConfigError(
            f"{text}: expected an experiment in {xps_dir}, found a folder elsewhere; set SOLFA_DORA_DIR to where it "
            "is kept, or remove it by hand"
        )
    expect_removable(folder)
    return folder


def expect_removable(folder: Path) -> None:
    """Refuse a folder that is a link, that no run made, or that somebody may be training in."""
    expect_real_folder(folder)
    if not (folder / ARGV).is_file():
        raise ConfigError(f"{folder}: expected an experiment, found no {ARGV}; if it is not needed, remove it by hand")
    lock = read_lock(folder)
    if lock.is_held:
        raise ConfigError(f"{folder}: {lock} is running this experiment; stop it first")
    if lock.is_held is None and lock.host:
        raise ConfigError(
            f"{folder}: {lock} took this experiment, and whether it still runs cannot be checked from here; remove it "
            f"on {lock.host}, or delete {folder / LOCK} if you know that it has ended"
        )


def remove_experiment(folder: str | Path) -> None:
    """Remove an experiment's folder, with its checkpoints, logs and clips, and the links of grids to it.

    >>> from pathlib import Path
    >>> from solfa.xp import list_experiments, remove_experiment
    >>> Path("old/0badcafe").mkdir(parents=True)
    >>> _ = Path("old/0badcafe/.argv.json").write_text("[]")
    >>> remove_experiment("old/0badcafe")
    >>> list_experiments("old")
    []
    """
    folder = Path(folder).absolute()
    expect_removable(folder)
    links = grid_links(folder)
    clear_experiment(folder)
    for link in links:
        link.unlink(missing_ok=True)


def clear_experiment(folder: Path) -> None:
    """Delete the folder of an experiment that starts over; nobody ever sees it half deleted."""
    expect_real_folder(folder)
    removed = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.removed")
    with locked(folder):
        folder.rename(removed)
    crash_point("removal:after-rename")
    _delete(removed)


def clean_removed(xps_dir: Path) -> None:
    """Delete what a removal that was killed has left behind."""
    for folder in xps_dir.iterdir() if xps_dir.is_dir() else ():
        if _REMOVED.fullmatch(folder.name) and not folder.is_symlink():
            _delete(folder)


def users_of(folder: Path, without: Collection[Path] = ()) -> list[str]:
    """Say in a few words what refers to an experiment: settings of others (`continue_from`, a codec), and grids.

    `without` are experiments that do not count, because they are being removed as well.
    """
    others = [other for other in list_experiments(folder.parent) if other != folder and other not in without]
    settings = {other.name: dict(_texts(read_experiment(other).config or {})) for other in others}
    named = [
        f"{key} of {signature}"
        for signature, texts in settings.items()
        for key, text in texts.items()
        if _is_within(text.partition(":")[0], folder)
    ]
    return named + [f"the grid {link.parent.name}" for link in grid_links(folder)]


def grid_links(folder: Path) -> list[Path]:
    """List the links to an experiment in the folders of grids, beside the folder of all experiments."""
    return sorted(link for link in folder.parent.parent.glob(f"{GRIDS}/*/{folder.name}") if link.is_symlink())


def _texts(values: Mapping[str, Any], outer: str = "") -> Iterable[tuple[str, str]]:
    for key, value in values.items():
        inner = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(inner, Mapping):
            yield from _texts({str(name): one for name, one in inner.items()}, f"{outer}{key}.")
        elif isinstance(inner, str):
            yield f"{outer}{key}", inner


def _is_within(text: str, folder: Path) -> bool:
    # By the last two names: settings may hold a path that is relative, or goes through a link.
    return (folder.parent.name, folder.name) in pairwise(Path(text).parts)


def _delete(folder: Path) -> None:
    while folder.exists():
        with suppress(FileNotFoundError):  # another removal deletes it, too
            shutil.rmtree(folder)
