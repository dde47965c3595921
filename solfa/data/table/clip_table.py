r"""A table with more about a dataset's clips: captions above all.

    table: {path: musiccaps-public.csv, key: ytid}

A row belongs to the clips of one recording. Its key is, in this order, the recording's name in the dataset
(`train/abc.wav`, the path below the folder that was encoded), that name without the audio extension (`train/abc`),
or just the file's name (`abc`). If files are named differently, a pattern says what the key is:

    pattern: '\[(?P<key>[\w-]{11})\]'     # [-0Gj8-vB1q4]-[30-40].wav
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, field_validator

from solfa.audio.file_types import AUDIO_EXTENSIONS
from solfa.config import Config, nearest
from solfa.data.table.cells import CellKind, ColumnKinds, read_cells
from solfa.errors import ConfigError
from solfa.files.digest import file_sha256
from solfa.files.printable_names import escape_path, unescape_path
from solfa.files.table_rows import TABLE_EXTENSIONS, Row, is_table_name, read_rows


class ClipTable(Config):
    r"""A CSV, TSV or JSONL file that says more about the clips of a dataset, and how its rows are joined to them.

    >>> from pathlib import Path
    >>> from solfa.data import ClipTable, Source, open_sources
    >>> _ = Path("captions.csv").write_text("file,caption\nhello,Somebody says hello\n")
    >>> joined = open_sources([Source(path="music.solfa", table=ClipTable(path="captions.csv", key="file"))])
    >>> "Somebody says hello" in joined.values("caption")
    True
    """

    path: str
    """A CSV, TSV or JSONL file."""
    key: str
    """The column that says which recording a row belongs to."""
    caption: str | None = "caption"
    """The column that becomes the clips' caption, instead of the dataset's own; None: no column does."""
    pattern: str | None = None
    """A regular expression that finds the key in a recording's name, as its group `key`."""
    overwrite: bool = False
    """Whether columns win over metadata of the same name in the dataset; otherwise the metadata wins."""
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    """The SHA-256 the file must have; None accepts any."""

    @field_validator("pattern")
    @classmethod
    def _finds_a_key(cls, pattern: str | None) -> str | None:
        try:
            has_group = pattern is None or "key" in re.compile(pattern).groupindex
        except re.error as error:
            raise ValueError(f"expected a regular expression, found one that does not compile: {error}") from None
        if not has_group:
            raise ValueError("expected a group named key, as in (?P<key>[^/]+)_[0-9]+")
        return pattern

    @property
    def file(self) -> Path:
        return Path(self.path).expanduser()

    def names_of(self, recording: str) -> tuple[str, ...]:
        """List the possible keys of a recording's row, most reliable first."""
        # Not pathlib, which takes ten times as long: a dataset may have millions of recordings.
        name = unescape_path(recording).as_posix() if "%" in recording else recording
        if self.pattern is not None:
            found = re.search(self.pattern, name)
            return () if found is None or found["key"] is None else (found["key"],)
        bare, extension = posixpath.splitext(name)
        bare = bare if extension.lower() in AUDIO_EXTENSIONS else name
        return tuple(dict.fromkeys((name, bare, posixpath.basename(bare))))

    def content_sha256(self) -> str:
        """Hash the file; refuse it if it is not the pinned one."""
        if not is_table_name(self.file.name):
            raise ConfigError(
                f"{escape_path(self.file)}: expected a table of captions as {', '.join(TABLE_EXTENSIONS)}"
            )
        try:
            found = file_sha256(self.file)
        except OSError as error:
            raise ConfigError(f"{escape_path(self.file)}: the table cannot be read: {error.strerror}") from None
        if self.sha256 is not None and found != self.sha256:
            raise ConfigError(
                f"{escape_path(self.file)}: expected the table with the SHA-256 {self.sha256[:16]}…, found "
                f"{found[:16]}…: it has changed; restore the earlier file or start over with this one"
            )
        return found

    def pinned(self) -> "ClipTable":
        """Pin the file's current content."""
        return self.model_copy(update={"sha256": self.content_sha256()})


class TableIndex(NamedTuple):
    """What one pass over a table finds, so that a second pass only reads the rows that are needed."""

    positions: dict[str, int]
    """Where the first row with each key is, counted from 0."""
    repeated: set[str]
    """Keys of several rows."""
    num_rows: int
    num_keyless: int
    kinds: dict[str, CellKind]
    """The kinds of a CSV's columns; JSONL values have their own."""


def index_table(table: ClipTable) -> TableIndex:
    """Find where the row of each key is, and what the columns hold."""
    positions: dict[str, int] = {}
    repeated: set[str] = set()
    columns: dict[str, None] = {}
    kinds, holds_texts = ColumnKinds(), _holds_texts(table)
    num_rows = num_keyless = 0
    for position, row in enumerate(read_rows(table.file)):
        num_rows += 1
        columns.update(dict.fromkeys(row.values))
        key = _key_of(row, table)
        if key is None:
            num_keyless += 1
        elif positions.setdefault(key, position) != position:
            repeated.add(key)
        if holds_texts:
            kinds.see(row.values)
    _expect_columns(table, list(columns))
    # A caption is a text even if all captions are numbers, and so is a key.
    others = {name: kind for name, kind in kinds.found().items() if name not in (table.key, table.caption)}
    return TableIndex(positions, repeated, num_rows, num_keyless, others)


class KeyedRow(NamedTuple):
    """What a row says about a recording."""

    position: int
    line: int
    key: str
    values: dict[str, Any]


def keyed_rows(table: ClipTable, index: TableIndex, wanted: set[int]) -> Iterator[KeyedRow]:
    """Read the rows at the wanted positions and all rows with a repeated key, leaving out empty values."""
    holds_texts = _holds_texts(table)
    for position, row in enumerate(read_rows(table.file)):
        key = _key_of(row, table)
        if key is None or not (position in wanted or key in index.repeated):
            continue
        values = read_cells(row.values, index.kinds) if holds_texts else row.values
        known = {name: value for name, value in values.items() if value is not None}
        yield KeyedRow(position, row.line, key, known)


def _holds_texts(table: ClipTable) -> bool:
    return table.file.name.lower().endswith((".csv", ".tsv"))


def _key_of(row: Row, table: ClipTable) -> str | None:
    value = row.values.get(table.key)
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value).strip() or None


def _expect_columns(table: ClipTable, columns: list[str]) -> None:
    if not columns:
        raise ConfigError(f"{escape_path(table.file)}: expected a table with rows, found none")
    for field, name in (("key", table.key), ("caption", table.caption)):
        if name is not None and name not in columns:
            raise ConfigError(
                f"{escape_path(table.file)}: no column {name!r}{nearest(name, columns)}; set {field} to "
                f"one of {', '.join(columns)}{', or to null' if field == 'caption' else ''}"
            )
