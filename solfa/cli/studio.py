"""`solfa studio`: pages on this machine to search and hear datasets and to watch runs."""

import os
from pathlib import Path
from typing import Annotated

import typer

from solfa.cli.flags import filled_path, filled_place
from solfa.errors import ConfigError
from solfa.ui.terminal.console import console, visible

EXAMPLES = """
[bold]Examples[/]

  solfa studio music.solfa --open

  solfa studio music.solfa --source audio/          hear the original beside what was decoded

  solfa studio --runs experiments/                  watch runs that are kept elsewhere

  solfa studio music.solfa --host 0.0.0.0 --password

It listens on 127.0.0.1 and answers only browsers of this machine. With --password, which is asked for, or taken from
SOLFA_STUDIO_PASSWORD, others may come in as well. Ctrl-C ends it; runs that it started go on.
"""
PASSWORD = "SOLFA_STUDIO_PASSWORD"
MIN_PASSWORD = 8
LOCAL = ("127.0.0.1", "::1", "localhost")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("studio", epilog=EXAMPLES)(studio)


def studio(
    datasets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATASET",
            parser=filled_place,
            help="Datasets to show: folders or s3://BUCKET/PATH.",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=filled_path,
            help="Where experiments are kept.",
            show_default="SOLFA_DORA_DIR, or what the team file says",
        ),
    ] = None,
    source: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", parser=filled_path, help="A folder of original audio, to hear beside what was decoded."
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")] = 8100,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = LOCAL[0],
    password: Annotated[
        bool, typer.Option("--password", help="Ask for a password, which browsers then have to know.")
    ] = False,
) -> None:
    """Serve pages to your browser: hear datasets, watch runs, ask models for clips, compare blind, encode."""
    from solfa.environment.teams import load_environment

    known = _password() if password else None
    if known is None and host not in LOCAL:
        raise ConfigError(f"--host {host}: other machines could reach this; add --password, or leave --host out")
    try:
        from solfa.studio.access import Access
        from solfa.studio.context import Studio
        from solfa.studio.datasets.shelf import Shelf
        from solfa.studio.server import listen, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "solfa":
            raise
        raise ConfigError(
            f"the studio needs packages that are not installed ({error.name}); run pip install 'solfa[studio]'"
        ) from None
    for folder in source or []:
        if not folder.is_dir():
            raise ConfigError(f"`source` {folder}: expected a folder of audio, found none")
    shelf = Shelf(source or [])
    for dataset in datasets or []:
        shelf.add(dataset)
    dora_dir = load_environment(os.environ).dora_dir if runs is None else _dora_dir(runs)
    listening = listen(host, port)
    taken = listening.getsockname()[1]
    address = f"http://{f'[{host}]' if ':' in host else host}:{taken}/"
    console.print(f"studio: {visible(address)} (Ctrl-C ends it)", soft_wrap=True, highlight=False)
    try:
        serve(Studio(shelf, dora_dir, Access(taken, known)), listening, open_page=address if open_page else None)
    except KeyboardInterrupt:  # which is how it ends
        return


def _dora_dir(runs: Path) -> Path:
    """Take the folder that holds `xps`; `xps` itself is understood, too."""
    if not runs.is_dir():
        raise ConfigError(f"`runs` {runs}: expected a folder of experiments, found none")
    runs = runs.absolute()
    return runs.parent if runs.name == "xps" else runs


def _password() -> str:
    typed = os.environ.get(PASSWORD) or typer.prompt("password", hide_input=True, err=True)
    if len(typed) < MIN_PASSWORD:
        raise ConfigError(f"--password: expected at least {MIN_PASSWORD} characters, found {len(typed)}")
    return str(typed)
