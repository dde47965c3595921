"""A stream is cut into lists without being read ahead."""

from itertools import count

from solfa.files.chunks import chunks


def test_chunks_are_full_but_the_last():
    assert list(chunks(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(chunks([], 3)) == []


def test_nothing_is_taken_before_it_is_asked_for():
    numbers = count()
    assert next(chunks(numbers, 2)) == [0, 1]
    assert next(numbers) == 2
