"""The terminal: a console for results, one for errors, tables, and progress bars."""

import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

FILE_WIDTH = 1000
"""Characters per line if the output is not a terminal."""

console = Console()
errors = Console(stderr=True)


def visible(text: str) -> str:
    """Escape control characters and markup, so that a file name cannot affect the terminal."""
    shown = "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)
    return escape(shown)


def print_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns below a title."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column()
    for name, value in facts:
        table.add_row(name, visible(value))
    console.print(title, soft_wrap=True, highlight=False)
    print_table(table)


def print_table(table: Table) -> None:
    """Print a table; in a file or pipe nothing is cut, because there is no width to fit."""
    if not console.is_terminal:
        console.width = max(console.width, FILE_WIDTH)
    console.print(table, highlight=False)


def print_failures(failures: list[tuple[str, str]], most: int = 10) -> None:
    """List failed clips with their reasons, at most a screenful."""
    for clip_id, reason in failures[:most]:
        console.print(f"  [yellow]failed[/] {visible(clip_id)}: {visible(reason)}", soft_wrap=True, highlight=False)
    if len(failures) > most:
        console.print(f"  … and {len(failures) - most} more", highlight=False)


def print_next(*commands: str) -> None:
    """Print what people do next, as commands to copy; where `solfa` is not on the path, as it was typed."""
    typed = "solfa" if shutil.which("solfa") or Path(sys.argv[0]).name != "solfa" else shlex.quote(sys.argv[0])
    shown = [visible(command.replace("solfa", typed, 1)) for command in commands]
    console.print("next: " + "\n      ".join(shown), soft_wrap=True, highlight=False)


class Bar:
    """A progress bar with a count, a rate and the time left; without a known total, a spinner with a count."""

    def __init__(self, description: str, unit: str, *, has_total: bool = True, slim: bool = False) -> None:
        """Prepare a bar; a slim one leaves room for its note, and a spinner moves instead of a bar and a clock."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        counted = (*(() if slim else (BarColumn(bar_width=16),)), MofNCompleteColumn(), TextColumn(unit))
        left = (TextColumn("ETA"), TimeRemainingColumn())
        self._progress = Progress(
            *((SpinnerColumn(),) if slim or not has_total else ()),
            TextColumn("{task.description}"),
            *(counted if has_total else ()),
            TextColumn("{task.fields[note]}"),
            *(() if slim else (TimeElapsedColumn(),)),
            *(left if has_total else ()),
            console=errors,
            transient=True,
            disable=not errors.is_terminal,
        )
        self._task = self._progress.add_task(description, total=None, note="")
        self._unit, self._has_total = unit, has_total

    def __call__(self, done: int, total: int | None = None, note: str = "") -> None:
        """Show that `done` of `total` is done; less than before begins something new, with a clock of its own."""
        if done < self._progress.tasks[0].completed:
            # Otherwise a bar that was full once says until the end that no time is left.
            self._progress.reset(self._task, total=total, completed=done)
        rate = f"{done / self.elapsed:.1f}/s" if self.elapsed > 0.5 else ""
        shown = note or (rate if self._has_total else f"{done:,} {self._unit} {rate}")
        self._progress.update(self._task, completed=done, total=total, note=shown)

    @property
    def elapsed(self) -> float:
        """Seconds since the bar appeared."""
        return self._progress.tasks[0].elapsed or 0.0

    def start(self) -> None:
        """Show the bar, unless the output is not a terminal."""
        self._progress.start()

    def stop(self) -> None:
        """Remove the bar."""
        if not self._progress.disable:  # rich before 14.3 prints an empty line even for a bar that was never shown
            self._progress.stop()


@contextmanager
def progress_bar(description: str, unit: str) -> Iterator[Bar]:
    """Show a bar while the context is open."""
    bar = Bar(description, unit)
    bar.start()
    try:
        yield bar
    finally:
        bar.stop()
