"""Columns and tables of Arrow made of Python's lists and numpy's arrays.

Not by `pa.array` or `from_pylist`, which import pandas wherever that is installed: 0.2 s of each process that writes.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

_TYPECODES = {pa.int32(): "i", pa.int64(): "q", pa.uint32(): "I", pa.float32(): "f", pa.float64(): "d"}
"""What Python's own arrays call the types of numbers: these refuse what does not fit, where numpy would cut it off."""
_MAX_BYTES = 2**31 - 1
"""A column counts the bytes of its texts, and the items of its lists, with 32 bits."""


def number_column(numbers: np.ndarray[Any, Any]) -> pa.Array:
    """Make a column of an array; it is a view of it if that is in one piece."""
    whole = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(pa.from_numpy_dtype(whole.dtype), len(whole), [None, pa.py_buffer(whole)])


def list_column(
    offsets: np.ndarray[Any, np.dtype[np.int32]], items: np.ndarray[Any, Any], kind: pa.DataType
) -> pa.Array:
    """Make a column of lists, of which each begins where the one before ends."""
    return pa.ListArray.from_arrays(number_column(offsets), number_column(items), type=kind)


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Make a column of texts, numbers or lists of numbers, or None for what is missing."""
    missing = [place for place, value in enumerate(values) if value is None]
    mask = _mask(len(values), missing) if missing else None
    if pa.types.is_string(kind):
        texts = [b"" if value is None else value.encode() for value in values]
        return _of_buffers(kind, len(values), [mask, _offsets(map(len, texts)), b"".join(texts)])
    if pa.types.is_list(kind):
        lists = [() if value is None else value for value in values]
        items = column([item for one in lists for item in one], kind.value_type)
        return _of_buffers(kind, len(values), [mask, _offsets(map(len, lists))], [items])
    numbers = [0 if value is None else value for value in values] if missing else values
    return _of_buffers(kind, len(values), [mask, array(_TYPECODES[kind], numbers)])


def batch_of_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Make a batch of rows, each of which has a value for every column."""
    return pa.record_batch([column([row[field.name] for row in rows], field.type) for field in schema], schema=schema)


def table_of_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Make a table of rows, each of which has a value for every column."""
    return pa.Table.from_batches([batch_of_rows(rows, schema)], schema)


def _of_buffers(kind: pa.DataType, length: int, buffers: Sequence[Any], children: Sequence[pa.Array] = ()) -> pa.Array:
    found = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(kind, length, found, children=list(children))


def _offsets(lengths: Iterable[int]) -> np.ndarray[Any, np.dtype[np.int32]]:
    ends = np.cumsum(np.fromiter(lengths, np.int64))
    if len(ends) and ends[-1] > _MAX_BYTES:
        raise pa.ArrowCapacityError(f"expected at most {_MAX_BYTES} bytes or items in a column, found {ends[-1]}")
    return np.concatenate([np.zeros(1, np.int64), ends]).astype(np.int32)


def _mask(length: int, missing: Sequence[int]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    is_there = np.ones(length, np.bool_)
    is_there[missing] = False
    return np.packbits(is_there, bitorder="little")
