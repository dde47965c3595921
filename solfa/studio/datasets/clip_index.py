"""All clips of a dataset in memory, as columns: a search among hundreds of thousands takes milliseconds."""

import json
import threading
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from solfa.store.dataset import Dataset
from solfa.store.shard_reader import FailedClip
from solfa.studio.datasets.clip_query import PER_PAGE, ClipQuery, as_span

MAX_COLUMNS = 40
"""Keys of the metadata that can be filtered and sorted by; the most frequent ones."""
SOME_CLIPS = 500
_PLAIN = ("id", "seconds", "caption")


class ClipRow(NamedTuple):
    """What a table shows of one clip."""

    id: str
    is_stored: bool
    seconds: float | None
    caption: str
    metadata: Mapping[str, Any]
    error: str


class ClipPage(NamedTuple):
    """One page of what was found."""

    rows: Sequence[ClipRow]
    number: int
    num_pages: int
    num_found: int


class ClipIndex:
    """The clips of a dataset and those that failed, in the dataset's order."""

    def __init__(self, table: pa.Table, failures: Sequence[FailedClip] = ()) -> None:
        """`table` has the columns id, seconds, caption and metadata of the clips that are stored."""
        failed = {
            "id": [clip.id for clip in failures],
            "seconds": [None] * len(failures),
            "caption": [None] * len(failures),
            "metadata": ["{}"] * len(failures),
        }
        fields = [pa.field(field.name, field.type) for field in table.schema]
        rest = pa.table(failed, schema=pa.schema(fields))
        self._table = pa.concat_tables([table.cast(rest.schema), rest]).combine_chunks()
        self._errors = [clip.error for clip in failures]
        self.num_stored: int = table.num_rows
        self.num_failed = len(failures)
        self._lock = threading.Lock()

    @classmethod
    def of(cls, dataset: Dataset) -> "ClipIndex":
        """Read what a dataset says about its clips."""
        return cls(dataset.columns(["id", "seconds", "caption", "metadata"]), dataset.failures())

    def __len__(self) -> int:
        return self.num_stored + self.num_failed

    def prepare(self) -> None:
        """Do now what the first search would have to do."""
        with self._lock:
            _ = self._searched

    def row(self, number: int) -> ClipRow:
        """Read one row."""
        is_stored = number < self.num_stored
        values = {name: self._table.column(name)[number].as_py() for name in ("id", "seconds", "caption", "metadata")}
        error = "" if is_stored else self._errors[number - self.num_stored]
        return ClipRow(
            values["id"], is_stored, values["seconds"], values["caption"] or "", _object(values["metadata"]), error
        )

    def find(self, query: ClipQuery) -> ClipPage:
        """Find the clips that a query asks for, and return one page of them."""
        numbers = self.numbers(query)
        num_pages = max(1, -(-len(numbers) // PER_PAGE))
        number = min(query.page, num_pages)
        shown = numbers[(number - 1) * PER_PAGE : number * PER_PAGE]
        return ClipPage([self.row(int(one)) for one in shown], number, num_pages, len(numbers))

    def numbers(self, query: ClipQuery) -> NDArray[np.int64]:
        """List the rows that a query asks for, in its order."""
        kept = np.ones(len(self), bool)
        if not query.is_plain:
            kept = self._lengths_kept(query)
            for word in query.words:
                kept &= _flags(pc.match_substring(self._search_texts, _folded(word)))
            if query.column and query.value:
                kept &= self._column_kept(query.column, query.value)
        found = np.flatnonzero(kept)
        return self._sorted(found, query) if query.sort else found

    def _lengths_kept(self, query: ClipQuery) -> NDArray[np.bool_]:
        seconds = self._seconds
        kept = np.ones(len(self), bool)
        if query.status:
            kept &= (np.arange(len(self)) < self.num_stored) == (query.status == "ok")
        if query.min_seconds is not None:
            kept &= seconds >= query.min_seconds  # a clip that failed has no length
        if query.max_seconds is not None:
            kept &= seconds <= query.max_seconds
        return kept

    def _column_kept(self, column: str, value: str) -> NDArray[np.bool_]:
        values, span = self.column(column), as_span(value)
        if values is None:
            return np.zeros(len(self), bool)
        if pa.types.is_floating(values.type) and span is not None:
            numbers = values.to_numpy(zero_copy_only=False)
            return np.asarray((numbers >= span[0]) & (numbers <= span[1]))
        texts = values.cast(pa.string()) if pa.types.is_floating(values.type) else values
        return _flags(pc.match_substring(texts, value, ignore_case=True))

    def _sorted(self, found: NDArray[np.int64], query: ClipQuery) -> NDArray[np.int64]:
        key = query.sort.removeprefix("meta.")
        values = self._table.column(key) if query.sort in _PLAIN else self.column(key)
        if values is None:
            return found
        order = "descending" if query.is_descending else "ascending"
        chosen = pa.table({"value": pc.take(values, pa.array(found))})
        return np.asarray(found[pc.sort_indices(chosen, [("value", order)]).to_numpy()])

    @cached_property
    def _seconds(self) -> NDArray[np.float64]:
        return np.asarray(self._table.column("seconds").to_numpy(), np.float64)

    @property
    def _search_texts(self) -> pa.Array:
        with self._lock:
            return self._searched[0]

    def column_names(self) -> list[str]:
        """List the keys of the metadata, the most frequent first; before anybody has searched, those of some clips."""
        if "_searched" in self.__dict__:
            return list(self._searched[1])
        some = np.linspace(0, self.num_stored - 1, min(self.num_stored, SOME_CLIPS)).astype(np.int64)
        texts = self._table.column("metadata").take(pa.array(some)).to_pylist()
        return [key for key, _ in Counter(key for text in texts for key in _object(text)).most_common(MAX_COLUMNS)]

    def column(self, name: str) -> pa.Array | None:
        """The values of a key of the metadata, as numbers if all of them are, or else as texts."""
        with self._lock:
            return self._searched[1].get(name)

    @cached_property
    def _searched(self) -> tuple[pa.Array, dict[str, pa.Array]]:
        """The texts to search, and the columns of the metadata: all of it is read once."""
        objects = [_object(text) for text in self._table.column("metadata").to_pylist()]
        ids, captions = self._table.column("id").to_pylist(), self._table.column("caption").to_pylist()
        errors = [""] * self.num_stored + self._errors
        texts = [
            _folded("\n".join((clip_id, caption or "", *map(_text, values.values()), error)))
            for clip_id, caption, values, error in zip(ids, captions, objects, errors, strict=True)
        ]
        keys = Counter(key for values in objects for key in values)
        columns = {key: _column([values.get(key) for values in objects]) for key, _ in keys.most_common(MAX_COLUMNS)}
        return pa.array(texts, pa.large_string()), columns


def _flags(matched: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(matched, False).to_numpy(zero_copy_only=False), bool)


def _folded(text: str) -> str:
    """Make texts comparable: upper and lower case are the same, and so are two ways to write an accent."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return plain.encode("utf-8", "backslashreplace").decode()


def _object(text: str) -> dict[str, Any]:
    """Read metadata; what is no object is none, and `solfa verify` says so."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _column(values: list[Any]) -> pa.Array:
    """Make a column of numbers if all values are, or else of texts."""
    if all(value is None or _is_number(value) for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    texts = [None if value is None else _text(value).encode("utf-8", "backslashreplace").decode() for value in values]
    return pa.array(texts, pa.string())


def _is_number(value: Any) -> bool:
    """Say whether a value is a number that a float can hold; JSON has longer integers."""
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**1000)
