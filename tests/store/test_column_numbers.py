"""Columns become the arrays that Arrow itself makes of them."""

import numpy as np
import pyarrow as pa
import pytest

from solfa.store.column_numbers import column_of, numbers_of, texts_of


@pytest.mark.parametrize("kind", ["int32", "int64", "uint16", "uint64", "float16", "float32", "float64"])
def test_any_pieces_and_slices_of_a_column(kind):
    values = np.arange(10).astype(kind)
    array = pa.array(values)
    for column in (array, array[3:7], array[:0], pa.chunked_array([array[2:5], array[:0], array[5:]]),
                   pa.chunked_array([array])[1:9], pa.chunked_array([], array.type)):  # fmt: skip
        found = numbers_of(column)
        assert found.dtype == values.dtype and np.array_equal(found, column.to_numpy(zero_copy_only=False))


def test_what_is_missing_is_not_taken_for_a_number():
    with pytest.raises(pa.ArrowInvalid, match="expected 2 numbers, found 1 of them missing"):
        numbers_of(pa.array([1, None]))
    assert numbers_of(pa.chunked_array([[1, None], [3]]), missing=-1).tolist() == [1, -1, 3]


def test_texts_are_where_they_are_said_to_be():
    texts = pa.array(["a", "", "日本", "bc", "d"])
    for column in (pa.chunked_array([texts]), pa.chunked_array([texts[1:3], texts[3:]]), pa.chunked_array([texts[2:]])):
        buffer, begins, ends = texts_of(column)
        found = [buffer[begin:end].to_pybytes().decode() for begin, end in zip(begins, ends, strict=True)]
        assert found == column.to_pylist()
    assert texts_of(pa.chunked_array([pa.array(["", ""])]))[2].tolist() == [0, 0]


def test_numbers_become_a_column_and_come_back():
    for numbers in (np.arange(5), np.arange(10)[::3], np.empty(0, np.int64)):
        column = column_of(numbers)
        assert column.type == pa.int64() and column.to_pylist() == numbers_of(column).tolist() == numbers.tolist()
