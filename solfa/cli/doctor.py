"""`solfa doctor`: what this machine can do, what is missing, and how to fix it."""

import typer
from rich.table import Table

from solfa.ui.terminal.console import console, visible

_COLOURS = {"ok": "green", "warn": "yellow", "missing": "dim"}


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("doctor", epilog="[bold]Example[/]\n\n  solfa doctor")(doctor)


def doctor() -> None:
    """Check what this machine can do, and say how to get what is missing: torch, CPU, audio formats, extras, disk."""
    from solfa.environment.doctor import examine

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for finding in examine():
        state = f"[{_COLOURS[finding.status]}]{finding.status}[/]"
        table.add_row(state, visible(finding.name), visible(finding.found), f"[dim]{visible(finding.advice)}[/]")
    console.print(table)
