"""`solfa rm`: remove experiments that are not needed any more."""

import os
from typing import Annotated

import typer

from solfa.ui.terminal.console import console, visible

EXAMPLES = """
[bold]Examples[/]

  solfa rm 9521b0af               shows what is in it, asks, and removes it

  solfa rm 95 c0 //sig/ab12       several; the first characters of a signature are enough

  solfa rm 9521b0af --yes         in a script: does not ask

Experiments that are running are refused, and so are links and folders that are not experiments. If another experiment
continues from one or uses it as a codec, or a grid lists it, you are told before you are asked; scripts add --force.
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("rm", epilog=EXAMPLES)(rm)


def rm(
    signatures: Annotated[
        list[str], typer.Argument(metavar="SIG...", help="Signatures (or their first characters) or folders.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --yes: also remove what other experiments or grids refer to.")
    ] = False,
) -> None:
    """Remove experiments with their checkpoints, logs and clips."""
    from solfa.cli.removal_question import ask_to_remove
    from solfa.environment.teams import load_environment
    from solfa.errors import ConfigError
    from solfa.xp.removal import clean_removed, find_removable, remove_experiment, users_of

    xps_dir = load_environment(os.environ).xps_dir
    clean_removed(xps_dir)
    folders = list(dict.fromkeys(find_removable(xps_dir, text) for text in signatures))
    users = {folder: users_of(folder, without=folders) for folder in folders}
    for folder, found in users.items():
        if found and yes and not force:
            raise ConfigError(
                f"{folder.name}: it is used by {', '.join(found)}; remove what uses it as well, or add `force=True`"
            )
    ask_to_remove(folders, yes=yes, users=users)
    for folder in folders:
        remove_experiment(folder)
        console.print(f"removed {visible(folder.name)}", soft_wrap=True, highlight=False)
