"""What a model can be conditioned on, as the flags of `solfa generate`."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from solfa.generate.condition_facts import ConditionFacts
from solfa.ui.terminal.printable import printable

_MOST_LABELS = 24


def conditions_table(conditions: Sequence[ConditionFacts]) -> Table:
    """Make a table of what a model can be conditioned on: what to type after `solfa generate SIG`, and the values."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("condition", no_wrap=True)
    table.add_column("values", overflow="fold")
    for condition in conditions:
        table.add_row(Text(printable(_flag(condition))), Text(printable(_values(condition))))
    return table


def _flag(condition: ConditionFacts) -> str:
    if condition.is_only_text:
        return '--text "..."'
    return f"--set {condition.name}={'NUMBER' if condition.kind == 'number' else '...'}"


def _values(condition: ConditionFacts) -> str:
    if condition.range is not None:
        return f"from {condition.range[0]:g} to {condition.range[1]:g}"
    if condition.kind == "text":
        return "any text"
    if condition.labels is None:
        return "labels of the training data, known after the first epoch"
    more = len(condition.labels) - _MOST_LABELS
    return ", ".join(condition.labels[:_MOST_LABELS]) + (f" and {more} more (--json lists them)" if more > 0 else "")
