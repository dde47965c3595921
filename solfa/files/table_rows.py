"""Read CSV, TSV and JSONL tables row by row, with line numbers."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from solfa.errors import ConfigError
from solfa.files.json_objects import parse_strict
from solfa.files.printable_names import escape_path

TABLE_EXTENSIONS = (".csv", ".tsv", ".jsonl", ".jsonl.gz")


class Row(NamedTuple):
    """A row as JSON values, and its line number for error messages."""

    line: int
    values: dict[str, Any]


def is_table_name(name: str) -> bool:
    """Say whether a file name is that of a table."""
    return name.lower().endswith(TABLE_EXTENSIONS)


def read_rows(path: Path) -> Iterator[Row]:
    """Read a table row by row; errors name the file and line."""
    name = path.name.lower()
    if name.endswith((".csv", ".tsv")):
        return _read_csv(path, _delimiter(name))
    return _read_jsonl(path)


def read_column(path: Path, column: str) -> Iterator[Any]:
    """Read one value of every row, without the others; None where a row has none of that name."""
    name = path.name.lower()
    if not name.endswith((".csv", ".tsv")):
        yield from (row.values.get(column) for row in _read_jsonl(path))
        return
    lines = _read_lines(path, _delimiter(name))
    _, header = next(lines)
    place = header.index(column) if column in header else None
    for _, values in lines:
        yield None if place is None else values[place]


def _delimiter(name: str) -> str:
    return "\t" if name.endswith(".tsv") else ","


def read_header(path: Path) -> list[str] | None:
    """Read the first line of a CSV or TSV as it is; None for other tables, whose rows name their own values."""
    name = path.name.lower()
    if not name.endswith((".csv", ".tsv")):
        return None
    with _open_text(path) as file:
        try:
            return [cell.strip() for cell in next(csv.reader(file, delimiter=_delimiter(name)), [])]
        except csv.Error as error:
            raise ConfigError(f"{escape_path(path)}, line 1: {error}") from None


@contextmanager
def _open_text(path: Path) -> Iterator[io.TextIOBase]:
    try:
        with path.open("rb") as raw:
            binary = gzip.GzipFile(fileobj=raw) if path.name.lower().endswith(".gz") else raw
            # utf-8-sig: spreadsheets put a byte order mark before the first column's name.
            yield io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{escape_path(path)}: cannot be read ({error})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{escape_path(path)}: expected UTF-8, found byte 0x{error.object[error.start]:02X}"
        ) from None


def _read_jsonl(path: Path) -> Iterator[Row]:
    with _open_text(path) as file:
        for line, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                yield Row(line, parse_strict(text))
            except ValueError as error:
                raise ConfigError(f"{escape_path(path)}, line {line}: {error}") from None


def _read_csv(path: Path, delimiter: str) -> Iterator[Row]:
    header: list[str] = []
    for line, values in _read_lines(path, delimiter):
        if header:
            yield Row(line, dict(zip(header, values, strict=True)))
        else:
            header = values


def _read_lines(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Read the names of the columns, then the values of each row, of which there are as many."""
    csv.field_size_limit(1 << 24)
    with _open_text(path) as file:
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        where = escape_path(path)
        try:
            header = _column_names(next(reader, []), where)
            yield reader.line_num, header
            count = len(header)
            for values in reader:
                if not values:
                    continue
                if len(values) != count:
                    raise ConfigError(f"{where}, line {reader.line_num}: expected {count} columns, found {len(values)}")
                yield reader.line_num, values
        except csv.Error as error:
            raise ConfigError(f"{where}, line {reader.line_num}: {error}") from None


def _column_names(header: list[str], where: str) -> list[str]:
    # An index column written by pandas has no name.
    names = [name.strip() or f"column_{position}" for position, name in enumerate(header, start=1)]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ConfigError(f"{where}, line 1: expected unique column names, found {sorted(repeated)[0]!r} twice")
    return names
