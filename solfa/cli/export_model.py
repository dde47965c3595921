"""`solfa export-model`: a trained model in the layout that other tools read."""

from pathlib import Path
from typing import Annotated

import typer

from solfa.cli.own_modules import reach_own_modules
from solfa.ui.terminal.console import console, visible

EXAMPLES = """
[bold]Examples[/]

  solfa export-model 899630c8 decoder/

  solfa export-model 899630c8 tuned/ --source facebook/musicgen-small

A language model becomes a MusicGen checkpoint that transformers loads: its decoder alone, or, with the checkpoint that
it was tuned from as --source, the whole model with text encoder and codec.
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("export-model", epilog=EXAMPLES)(export_model)


def export_model(
    experiment: Annotated[str, typer.Argument(metavar="SIG", help="A signature, the beginning of one, or a folder.")],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    source: Annotated[
        str | None, typer.Option(help="The checkpoint it was tuned from: a folder or a Hub id.", show_default="none")
    ] = None,
) -> None:
    """Write the best weights of an experiment as a checkpoint for other tools."""
    import os

    from solfa.environment.teams import load_environment
    from solfa.solvers.trained import open_trained
    from solfa.xp.record import find_experiment

    folder = find_experiment(load_environment(os.environ).xps_dir, experiment)
    reach_own_modules()
    written = open_trained(folder, device="cpu").export_model(directory, source)
    console.print(f"[bold]{visible(str(directory))}[/]: {visible(written)}", soft_wrap=True, highlight=False)
