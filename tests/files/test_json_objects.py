"""JSON that others wrote is an object, or a sentence says what it is instead."""

import json

import pytest

from solfa.errors import StoreError
from solfa.files.json_objects import clean, parse_object, parse_strict, read_object


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[1]", "found list"),
        ('{"a": ', "at column 7"),
        ('{"a":\n 1,}', "at line 2, column [34]"),  # from Python 3.13 on, that of the comma
        (b'{"a": "\xff"}', "UTF-8"),
        ('{"a":' * 100_000, "too deeply"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "too deeply"),
        ('{"a":' + "[" * 700 + "]" * 700 + "}", "too deeply"),
    ],
)
def test_anything_but_an_object_is_told_in_a_few_words(text, fault):
    with pytest.raises(ValueError, match=fault):
        parse_object(text)


def test_an_object_that_is_nested_reasonably_is_read():
    for text in ('{"a":' * 101 + "1" + "}" * 101, '{"a": ' + "[{}," * 99 + "1" + "]" * 99 + "}"):
        assert parse_strict(text) == json.loads(text)
    with pytest.raises(ValueError, match="too deeply"):
        parse_strict('{"a":' * 102 + "1" + "}" * 102)


def test_a_file_s_fault_names_the_file_and_says_what_to_do(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": 1}')
    assert read_object(path, StoreError) == {"a": 1}
    path.write_text("null")
    with pytest.raises(StoreError, match=r"a\.json: .*found NoneType.*; make it anew$"):
        read_object(path, StoreError, advice="make it anew")
    with pytest.raises(StoreError, match=r"^the note: .*NoneType"):
        read_object(path, StoreError, "the note")


def test_strict_values_are_json_everywhere():
    assert parse_strict('{"a": NaN, "b": [Infinity, "\\ud800"]}') == {"a": None, "b": [None, "?"]}
    assert clean((1, {"x": float("-inf")})) == [1, {"x": None}]
