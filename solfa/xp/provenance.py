"""Where a result comes from: the versions, the commit and the machine that made it, and which data and model.

    log                 one line when a run starts
    provenance.json     one entry per start of the experiment that differs from the one before
    checkpoints         the entry of the run that wrote them
    NAME.json           beside a generated clip: enough to make it again

Nothing of this is part of an experiment's settings, so it changes neither signatures nor what a resumed run computes.
No variables of the environment are recorded, and the home directory in a command is written as `~`.
"""

import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from solfa.files.whole_files import replace_atomically
from solfa.version import __version__
from solfa.xp.layout import PROVENANCE

PACKAGE = Path(__file__).parents[1]
GIT_SECONDS = 10.0
_STARTED = "started"


@dataclass(frozen=True)
class Software:
    """What computed a result, and on which machine."""

    solfa: str
    commit: str | None
    """Of the checkout that Solfa runs from; None if it was installed as a package."""
    is_modified: bool | None
    """Whether the checkout differs from its commit."""
    python: str
    torch: str | None
    platform: str
    host: str

    def __str__(self) -> str:
        commit = f" (commit {self.commit[:12]}{', modified' if self.is_modified else ''})" if self.commit else ""
        return (
            f"solfa {self.solfa}{commit}, torch {self.torch}, Python {self.python} on {self.platform}, host {self.host}"
        )

    def values(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


@cache
def read_software() -> Software:
    """Find out what this process runs."""
    commit, is_modified = read_commit(PACKAGE)
    return Software(
        solfa=__version__,
        commit=commit,
        is_modified=is_modified,
        python=platform.python_version(),
        torch=_version("torch"),
        platform=platform.platform(),
        host=platform.node(),
    )


def read_commit(package: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the checkout that a package lies in, and whether tracked files differ from it.

    Only a repository of the package itself counts, not one further up, such as that of a project with a virtual
    environment inside.
    """
    root = package.parent.parent if package.parent.name == "src" else package.parent
    if not (root / ".git").exists():
        return None, None
    commit = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    return commit or None, None if changes is None else bool(changes)


def spell_command(argv: Sequence[str], home: Path) -> str:
    """Write a command as it was typed: the program by its name, and `~` for the home directory."""
    program, *arguments = argv or [""]
    path = Path(program)
    name = path.parent.name if path.name == "__main__.py" else path.name
    return shlex.join([name, *(argument.replace(str(home), "~") for argument in arguments)])


def record_start(folder: Path, values: Mapping[str, Any]) -> None:
    """Add an entry for a run that starts in an experiment's folder, unless it says the same as the last one."""
    starts = read_starts(folder)
    if starts and {key: value for key, value in starts[-1].items() if key != _STARTED} == dict(values):
        return
    entry = {_STARTED: datetime.now(UTC).isoformat(timespec="seconds"), **values}
    replace_atomically(folder / PROVENANCE, (json.dumps([*starts, entry], indent=2) + "\n").encode())


def read_starts(folder: Path) -> list[dict[str, Any]]:
    """Read the entries of all starts, the first one first; a damaged file counts as none."""
    path = folder / PROVENANCE
    if not path.is_file():
        return []
    try:
        entries = json.loads(path.read_bytes())
    except ValueError:
        return []
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def last_start(folder: Path) -> dict[str, Any]:
    """Return what the last start says about results, without when and how somebody started it; empty if unknown."""
    entries = read_starts(folder)[-1:]
    return {key: value for entry in entries for key, value in entry.items() if key not in (_STARTED, "command")}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(root: Path, *arguments: str) -> str | None:
    """Ask git about a checkout; None if there is no git, or it does not answer."""
    # Inside a hook, git's own variables would point it to another repository.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(root), *arguments]
    try:
        run = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=GIT_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip()
