"""Ask before experiments are deleted: show what would go, and wait for an answer."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from solfa.errors import ConfigError
from solfa.spelling import plural
from solfa.ui.terminal.console import console, print_table


def ask_to_remove(folders: Sequence[Path], *, yes: bool, users: Mapping[Path, Sequence[str]] | None = None) -> None:
    """Show what is in these experiments and ask; leave with exit code 1 if the answer is no.

    With `yes`, nobody is asked. Without it, somebody has to be there to answer.
    """
    from solfa.ui.terminal.experiment_tables import removal_table
    from solfa.xp.record import read_experiment

    if not yes and not sys.stdin.isatty():
        raise ConfigError(
            f"expected somebody at a terminal to say yes to removing {plural(len(folders), 'experiment')}, found none; "
            "add `yes=True`"
        )
    print_table(removal_table([read_experiment(folder) for folder in folders], users or {}, time.time()))
    if not yes and not typer.confirm(f"Remove {plural(len(folders), 'experiment')} for good?"):
        console.print("nothing was removed")
        raise typer.Exit(1)
