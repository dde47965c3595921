"""Experiments for people and programs: a table of all, the facts of one, and JSON."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from solfa.spelling import duration, plural, size
from solfa.ui.terminal.history_table import all_series, main_series, spell
from solfa.ui.terminal.printable import printable
from solfa.xp.record import ExperimentRecord, State, folder_bytes

COLOURS: dict[State, str] = {
    "running": "cyan",
    "done": "green",
    "failed": "red",
    "dead": "red",
    "stopped": "yellow",
    "unknown": "yellow",
    "never ran": "dim",
}
_STATE_CHARACTERS = 48
"""How much of the state, the reason for a failure included, the table of all experiments shows."""
_RIGHT = frozenset({"size", "epochs", "last", "best"})


def experiments_table(records: Sequence[ExperimentRecord], now: float) -> Table:
    """Make a table with one line per experiment and its main metric."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("signature", "state", "epochs", "metric", "last", "best", "changed"):
        table.add_column(heading, no_wrap=True, justify="right" if heading in _RIGHT else "left")
    table.add_column("overrides", overflow="fold")
    for record in records:
        main = main_series(all_series(record.history))
        best = None if main is None else main.best
        table.add_row(
            Text(printable(record.signature), "bold"),
            Text(printable(_short_state(record, now)), COLOURS[record.state(now)]),
            epochs(record),
            Text(printable(main.name) if main else ""),
            spell(main.last) if main else "",
            spell(best[0]) if best else "",
            ago(record.changed, now),
            Text(printable(" ".join(record.overrides))),
        )
    return table


def experiment_facts(record: ExperimentRecord, now: float) -> list[tuple[str, str]]:
    """List what an experiment is and the state it is in."""
    written = "" if record.last_written is None else f", last written {ago(record.last_written, now)}"
    facts = [
        ("folder", str(record.folder)),
        ("overrides", " ".join(record.overrides) or "none"),
        ("state", record.state_words(now) + written),
        ("epochs", epochs(record)),
    ]
    if record.failure is not None and record.state(now) != "failed":
        facts.append(("last error", record.failure.reason))
    if record.checkpoints:
        room = size(sum(path.stat().st_size for path in record.checkpoints))
        facts.append(("checkpoints", f"{', '.join(path.name for path in record.checkpoints)} ({room})"))
    if record.clips:
        facts.append(("generated", f"{plural(len(record.clips), 'clip')} in {record.samples}"))
    return facts


def removal_table(records: Sequence[ExperimentRecord], users: Mapping[Path, Sequence[str]], now: float) -> Table:
    """Make a table of experiments that are about to be removed: how much would go, and who refers to it."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("signature", "size", "epochs", "changed"):
        table.add_column(heading, no_wrap=True, justify="right" if heading in _RIGHT else "left")
    table.add_column("overrides", overflow="fold")
    if any(users.values()):
        table.add_column("used by", overflow="fold", style="yellow")
    for record in records:
        table.add_row(
            Text(printable(record.signature), "bold"),
            size(folder_bytes(record.folder)),
            epochs(record),
            ago(record.changed, now),
            Text(printable(" ".join(record.overrides))),
            *([Text(printable(", ".join(users.get(record.folder, ()))))] if any(users.values()) else []),
        )
    return table


def experiment_json(record: ExperimentRecord, now: float) -> dict[str, Any]:
    """Convert a record to plain values; NaN and infinities, which JSON does not have, become None."""
    values = {
        "signature": record.signature,
        "folder": str(record.folder),
        "overrides": record.overrides,
        "state": record.state(now),
        "host": record.lock.host or None,
        "failure": None if record.failure is None else record.failure.reason,
        "epochs": len(record.history),
        "planned_epochs": record.planned_epochs,
        "last_written": record.last_written,
        "checkpoints": [path.name for path in record.checkpoints],
        "clips": [str(path.relative_to(record.folder)) for path in record.clips],
        "history": record.history,
        "config": record.config,
        "faults": record.faults,
    }
    return {name: _finite(value) for name, value in values.items()}


def epochs(record: ExperimentRecord) -> str:
    """Say how many epochs are complete, and out of how many."""
    planned = record.planned_epochs
    return str(len(record.history)) if planned is None else f"{len(record.history)} of {planned}"


def ago(moment: float, now: float) -> str:
    """Say how long ago something was; clocks of other machines may be ahead."""
    seconds = max(0.0, now - moment)
    return f"{int(seconds)} s ago" if seconds < 60 else f"{duration(seconds)} ago"


def _short_state(record: ExperimentRecord, now: float) -> str:
    """Describe the state in a few words: the machine it runs on, or the start of what went wrong."""
    state = record.state(now)
    words = record.state_words(now) if state in ("running", "failed") else state
    return words if len(words) <= _STATE_CHARACTERS else f"{words[:_STATE_CHARACTERS].rstrip()}…"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
