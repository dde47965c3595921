"""What the cells of a CSV mean: its texts become booleans, numbers and lists, column by column.

A column has the first kind that fits all its cells; an empty cell says nothing and fits every kind.

    true False TRUE          booleans
    30  -1                   whole numbers of up to 18 digits; 007 is not one but a text, as an identifier
    0.5  3  1e-05            numbers
    ['slow', "piano"] []     lists of texts, as Python and JSON write them
    everything else          texts
"""

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from solfa.files.json_objects import clean

_ESCAPE = r"\\(?:[\\'\"nrt]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})"
_QUOTED = rf"""(?:'(?:[^'\\\x00-\x1f]|{_ESCAPE})*'|"(?:[^"\\\x00-\x1f]|{_ESCAPE})*")"""
_WHOLE = "-?(?:0|[1-9][0-9]{0,17})"


class CellKind(NamedTuple):
    """How a kind of value is written, and how to read it."""

    written: re.Pattern[str]
    """Strict enough that reading a match cannot fail and gives a JSON value."""
    read: Callable[[str], Any]


KINDS = (
    CellKind(re.compile("true|false", re.IGNORECASE), lambda text: text.lower() == "true"),
    CellKind(re.compile(_WHOLE), int),
    CellKind(re.compile(rf"{_WHOLE}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{{1,2}})?"), float),
    CellKind(re.compile(rf"\[(?:{_QUOTED}(?:, ?{_QUOTED})*)?\]"), lambda text: clean(ast.literal_eval(text))),
)


class ColumnKinds:
    """Finds the kinds of a table's columns while its rows go by."""

    def __init__(self) -> None:
        self._possible: dict[str, tuple[CellKind, ...]] = {}

    def see(self, row: Mapping[str, str]) -> None:
        """Rule out the kinds that do not fit a cell of the row."""
        for name, cell in row.items():
            text = cell.strip()
            if text and (kinds := self._possible.setdefault(name, KINDS)):
                self._possible[name] = tuple(kind for kind in kinds if kind.written.fullmatch(text))

    def found(self) -> dict[str, CellKind]:
        """Return the kind of each column that does not hold texts."""
        return {name: kinds[0] for name, kinds in self._possible.items() if kinds}


def read_cells(row: Mapping[str, str], kinds: Mapping[str, CellKind]) -> dict[str, Any]:
    """Read the cells of a row that say something."""
    texts = {name: cell.strip() for name, cell in row.items()}
    return {name: kinds[name].read(text) if name in kinds else text for name, text in texts.items() if text}
