"""Why the last run of an experiment ended early: one sentence in its folder, until the experiment continues.

    {"reason": "epoch 1, update 212: expected a finite loss, found nan; ...", "is_refusal": false}

A refusal is an error before the first update, over settings or data: nothing was trained.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from solfa.environment.faults import fault_sentence
from solfa.errors import SolfaError
from solfa.files.whole_files import replace_atomically
from solfa.xp.layout import FAILURE


@dataclass(frozen=True)
class Failure:
    """The error that ended a run."""

    reason: str
    """One sentence."""
    is_refusal: bool = False
    """Whether the run was refused before it trained anything."""


def record_failure(folder: Path, error: BaseException, *, is_refusal: bool = False) -> None:
    """Write down why a run ended; not if its folder is gone, because whoever started it has removed it."""
    if folder.is_dir():
        failure = Failure(_sentence(error), is_refusal)
        replace_atomically(folder / FAILURE, (json.dumps(asdict(failure), indent=2) + "\n").encode())


def forget_failure(folder: Path) -> None:
    """Remove what is written about an earlier run: another one has begun."""
    (folder / FAILURE).unlink(missing_ok=True)


def read_failure(folder: Path) -> Failure | None:
    """Read why the last run ended; None if it did not fail. Whatever is in the file, it is an answer."""
    path = folder / FAILURE
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_bytes())
        return Failure(str(values["reason"]), values["is_refusal"] is True)
    except (ValueError, KeyError, TypeError):
        return Failure(f"{path} cannot be read")


def _sentence(error: BaseException) -> str:
    """Say it in one line, as the terminal does."""
    is_ours = isinstance(error, SolfaError) and str(error)
    return " ".join((str(error) if is_ours else fault_sentence(error)).split())
