"""Columns of tables as arrays of numpy and places in memory.

Not by `to_numpy`, which imports pandas wherever that is installed: half a second, for nothing.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NAMES = {"double": "float64", "float": "float32", "halffloat": "float16"}
"""What Arrow calls some types of numpy."""


def numbers_of(column: pa.ChunkedArray | pa.Array, missing: int | None = None) -> np.ndarray[Any, Any]:
    """Return the numbers of a column, with another for those that are missing; if it is in one piece, a view of them.

    Without another for them, missing ones are an `ArrowInvalid`.
    """
    if column.null_count and missing is not None:
        return numbers_of(pc.fill_null(column, missing))
    if column.null_count:
        raise pa.ArrowInvalid(f"expected {len(column)} numbers, found {column.null_count} of them missing")
    dtype = np.dtype(_NAMES.get(str(column.type), str(column.type)))
    pieces = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    found = [
        np.frombuffer(piece.buffers()[1], dtype, len(piece), piece.offset * dtype.itemsize)
        for piece in pieces
        if len(piece)
    ]
    return found[0] if len(found) == 1 else np.concatenate([np.empty(0, dtype), *found])


def column_of(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
    """Make a column of numbers, such as `take` wants; it is a view of them if they are in one piece."""
    contiguous = np.ascontiguousarray(numbers, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(contiguous), [None, pa.py_buffer(contiguous)])


def texts_of(column: pa.ChunkedArray) -> tuple[pa.Buffer, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the texts of a column as one buffer of UTF-8, and where in it each begins and ends."""
    texts = column.combine_chunks()
    _, offsets, buffer = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)
    return pa.py_buffer(b"") if buffer is None else buffer, bounds[:-1], bounds[1:]
