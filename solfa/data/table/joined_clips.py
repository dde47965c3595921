"""Clips together with the rows of a table: what both say about each clip."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import pyarrow as pa
from jaxtyping import Int64, Num

from solfa.audio.sources.metadata import find_caption
from solfa.data.attributes import CAPTION
from solfa.data.sources.clip_group import ClipGroup, grouping
from solfa.data.sources.clip_source import ClipSource, SourceClip, files_of_source
from solfa.data.table.clip_table import ClipTable
from solfa.store.remote_files import RemoteFiles
from solfa.store.stored_group import MappedArrays


@dataclass(frozen=True)
class JoinedRows:
    """The row of each clip of a dataset, or of a selection of it; pickled when worker processes are spawned."""

    table: ClipTable
    texts: pa.ChunkedArray
    """Rows as JSON texts, in the table's order: they take a fraction of the memory of Python objects."""
    rows: Int64[np.ndarray, "clips"]
    """The index in `texts` of each clip's row; -1 for none."""

    def __getstate__(self) -> dict[str, Any]:
        # Rows of other clips are not pickled.
        used, rows = np.unique(self.rows, return_inverse=True)
        has_none = int(len(used) > 0 and used[0] < 0)
        return {"table": self.table, "texts": self.texts.take(used[has_none:]), "rows": rows - has_none}

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, kept: Int64[np.ndarray, "kept"]) -> "JoinedRows":
        """Keep the clips at `kept`; the rows are shared, not copied."""
        return replace(self, rows=self.rows[kept])

    def caption(self, index: int, own: str | None) -> str | None:
        """Return a clip's caption from its row, or else the clip's own."""
        return find_caption({CAPTION: self._row(index).get(self.table.caption or "")}) or own

    def metadata(self, index: int, own: Mapping[str, Any]) -> dict[str, Any]:
        """Combine what the row and the dataset say about a clip."""
        row = self._row(index)
        if self.table.overwrite:
            return {**own, **row}
        caption = {name: value for name, value in row.items() if name == self.table.caption}
        return {**row, **own, **caption}

    def _row(self, index: int) -> dict[str, Any]:
        row = int(self.rows[index])
        return {} if row < 0 else json.loads(self.texts[row].as_py())


@dataclass(frozen=True)
class JoinedClip:
    """A clip of a dataset, also described by a row of a table."""

    clip: SourceClip
    """As the dataset gives it."""
    joined: JoinedRows
    index: int
    """Number of the clip among those that were joined."""

    @property
    def id(self) -> str:
        return self.clip.id

    @property
    def array(self) -> Num[np.ndarray, "T W"]:
        return self.clip.array

    @cached_property
    def caption(self) -> str | None:
        return self.joined.caption(self.index, self.clip.caption)

    @cached_property
    def metadata(self) -> Mapping[str, Any]:
        return self.joined.metadata(self.index, self.clip.metadata)


@final
class JoinedGroup:
    """Clips of a dataset, also described by rows of a table."""

    def __init__(self, group: ClipGroup, joined: JoinedRows, indices: Sequence[int]) -> None:
        self._group, self._joined, self._indices = group, joined, indices

    def windows(self, starts: Int64[np.ndarray, "G"], stops: Int64[np.ndarray, "G"]) -> list[Num[np.ndarray, "_"]]:
        return self._group.windows(starts, stops)

    def width(self) -> int:
        return self._group.width()

    def mapped_arrays(self) -> MappedArrays | None:
        return self._group.mapped_arrays()

    def mapped_ids(self) -> Int64[np.ndarray, "2 G"] | None:
        return self._group.mapped_ids()

    def ids(self) -> list[str]:
        return self._group.ids()

    def captions(self) -> list[str | None]:
        own = zip(self._indices, self._group.captions(), strict=True)
        return [self._joined.caption(index, caption) for index, caption in own]

    def metadata(self) -> list[Mapping[str, Any]]:
        own = zip(self._indices, self._group.metadata(), strict=True)
        return [self._joined.metadata(index, metadata) for index, metadata in own]


class JoinedClips:
    """A source of clips with the rows of a table; the order depends on the clips alone, whatever the rows say."""

    def __init__(self, source: ClipSource, joined: JoinedRows) -> None:
        assert len(source) == len(joined)
        self._source, self._joined, self._group = source, joined, grouping(source)

    @property
    def digest(self) -> str:
        return self._source.digest

    @property
    def num_frames(self) -> Int64[np.ndarray, "clips"]:
        return self._source.num_frames

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int, /) -> JoinedClip:
        return JoinedClip(self._source[index], self._joined, index)

    def group(self, indices: Int64[np.ndarray, "G"], /) -> ClipGroup:
        return JoinedGroup(self._group(indices), self._joined, indices.tolist())

    def remote_files(self) -> RemoteFiles | None:
        return files_of_source(self._source)
