"""What is known about the clips of a dataset, column by column; no array is read.

A column is `id`, `caption`, `seconds` or `num_frames`, or else a key of the clips' metadata.
"""

import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int64

from solfa.config import nearest
from solfa.errors import ConfigError
from solfa.store.schema import ArraySpec, Commit
from solfa.store.shard_reader import ShardReader

STORED_COLUMNS = ("id", "caption", "seconds", "num_frames")
"""Columns that every dataset has; where metadata has one of these names, too, the dataset's own counts."""


class ClipColumns:
    """The columns of the clips of a dataset, or of a selection of them, read when first asked for."""

    def __init__(
        self, path: Path, commits: tuple[Commit, ...], spec: ArraySpec, rows: Int64[np.ndarray, "kept"] | None = None
    ) -> None:
        self.path, self._commits, self._spec, self._rows = path, commits, spec, rows

    def __getstate__(self) -> dict[str, Any]:
        # What was read stays behind: a loader's worker process has no use for it.
        return {key: value for key, value in self.__dict__.items() if key not in ("_table", "_metadata")}

    def select(self, rows: Int64[np.ndarray, "kept"]) -> "ClipColumns":
        """Keep the clips at `rows`."""
        of_all = rows if self._rows is None else self._rows[rows]
        return ClipColumns(self.path, self._commits, self._spec, of_all)

    def values(self, column: str) -> list[Any]:
        """List the values of a column, None where a clip has none; a column that no clip has is an error."""
        if column in STORED_COLUMNS:
            return list(self._table.column(column).to_pylist())
        known = self.names()
        if column not in known:
            raise ConfigError(
                f"{self.path}: no clip has a column {column!r}{nearest(column, known)}; there are {', '.join(known)}"
            )
        return [row.get(column) for row in self._metadata]

    def names(self) -> list[str]:
        """List the columns that there are."""
        found = {name for row in self._metadata for name in row}
        return [*STORED_COLUMNS, *sorted(found - {*STORED_COLUMNS})]

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @cached_property
    def _table(self) -> pa.Table:
        wanted = [*STORED_COLUMNS, "metadata"]
        shards = [ShardReader(self.path, commit, self._spec).stored.select(wanted) for commit in self._commits]
        table = pa.concat_tables(shards) if shards else pa.table({name: [] for name in wanted})
        return table if self._rows is None else table.take(self._rows)

    @cached_property
    def _metadata(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in self._table.column("metadata").to_pylist()]


def some_values(values: Iterable[Any], count: int = 5) -> str:
    """Show a few different values of a column, for a sentence."""
    texts = list(dict.fromkeys(repr(value) for value in values))
    return ", ".join(texts[:count]) + (", …" if len(texts) > count else "")
