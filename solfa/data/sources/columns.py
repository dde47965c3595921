"""What is known about the clips of a dataset, column by column; no array is read.

A column is `id`, `caption`, `seconds` or `num_frames`, or else a key of the clips' metadata.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int64

from solfa.config import nearest
from solfa.data.attributes import CAPTION
from solfa.data.table.joined_clips import JoinedRows
from solfa.errors import ConfigError, StoreError
from solfa.files.json_objects import parse_object
from solfa.files.stores.place import Place
from solfa.store.column_numbers import column_of
from solfa.store.schema import ArraySpec, Commit
from solfa.store.shard_reader import read_shards

STORED_COLUMNS = ("id", "caption", "seconds", "num_frames")
"""Columns that every dataset has; they win over metadata of the same name."""


class ClipColumns:
    """The columns of a dataset's clips, or of a selection of them, read on first use."""

    def __init__(
        self,
        path: Place,
        commits: tuple[Commit, ...],
        spec: ArraySpec,
        rows: Int64[np.ndarray, "kept"] | None = None,
        joined: JoinedRows | None = None,
    ) -> None:
        self.path, self._commits, self._spec, self._rows = path, commits, spec, rows
        self.joined = joined
        """What a table says about the clips, in addition."""

    def __getstate__(self) -> dict[str, Any]:
        # What was read is not pickled: a loader's worker process has no use for it.
        return {key: value for key, value in self.__dict__.items() if key not in ("_table", "_names")}

    def select(self, rows: Int64[np.ndarray, "kept"]) -> "ClipColumns":
        """Keep the clips at `rows`."""
        of_all = rows if self._rows is None else self._rows[rows]
        joined = None if self.joined is None else self.joined.select(rows)
        return ClipColumns(self.path, self._commits, self._spec, of_all, joined)

    def join(self, joined: JoinedRows) -> "ClipColumns":
        """Add what a table says about these clips."""
        return ClipColumns(self.path, self._commits, self._spec, self._rows, joined)

    def values(self, column: str) -> list[Any]:
        """List the values of a column, None for a clip without one; a column that no clip has is an error."""
        if column in STORED_COLUMNS:
            stored = list(self._table.column(column).to_pylist())
            if column == CAPTION and self.joined is not None:
                return [self.joined.caption(index, own) for index, own in enumerate(stored)]
            return stored
        if column not in self._names:
            known = self.names()
            raise ConfigError(
                f"{self.path}: no clip has a column {column!r}{nearest(column, known)}; columns are {', '.join(known)}"
            )
        return [row.get(column) for row in self._metadata()]

    def names(self) -> list[str]:
        """List the available columns."""
        return [*STORED_COLUMNS, *sorted(self._names - {*STORED_COLUMNS})]

    def recordings(self) -> list[str]:
        """List the name of each clip's recording in the dataset."""
        return list(self._table.column("key").to_pylist())

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @cached_property
    def _table(self) -> pa.Table:
        wanted = [*STORED_COLUMNS, "metadata", "key"]
        shards = read_shards(self.path, self._commits, self._spec, lambda shard: shard.stored.select(wanted))
        table = pa.concat_tables(shards) if shards else pa.table({name: [] for name in wanted})
        return table if self._rows is None else table.take(column_of(self._rows))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(name for row in self._metadata() for name in row)

    def _metadata(self) -> Iterator[dict[str, Any]]:
        # Parsed again for each column: as Python objects, the metadata of a million clips would fill gigabytes.
        for index, text in enumerate(self._table.column("metadata")):
            try:
                own = parse_object(text.as_py())
            except ValueError as error:
                raise StoreError(f"{self.path}: the metadata of a clip is not a JSON object ({error})") from None
            yield own if self.joined is None else self.joined.metadata(index, own)


def some_values(values: Iterable[Any], count: int = 5) -> str:
    """Show a few different values of a column, for a message."""
    texts = list(dict.fromkeys(repr(value) for value in values))
    return ", ".join(texts[:count]) + (", …" if len(texts) > count else "")
