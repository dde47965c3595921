"""Texts of a CSV become values, column by column."""

import json
from typing import Any

import pytest

from solfa.data.table.cells import ColumnKinds, read_cells


def read_column(*cells: str) -> list[Any]:
    kinds = ColumnKinds()
    for cell in cells:
        kinds.see({"c": cell})
    return [read_cells({"c": cell}, kinds.found()).get("c") for cell in cells]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["True", "False", "", "true", "FALSE"], [True, False, None, True, False]),
        (["30", "-1", "0", " 7 "], [30, -1, 0, 7]),
        (["30", "0.5", "1e-05", "-2E+3"], [30.0, 0.5, 1e-05, -2000.0]),
        (["['low', \"it's\"]", "[]", '["a","b"]'], [["low", "it's"], [], ["a", "b"]]),
        ([r"['don\'t', 'caf\xe9\n']"], [["don't", "café\n"]]),
        (["1", "0", "1"], [1, 0, 1]),
        (["", "  "], [None, None]),
    ],
)
def test_a_column_is_of_the_kind_in_which_all_its_cells_are_written(cells: list[str], values: list[Any]) -> None:
    found = read_column(*cells)
    assert found == values and [type(value) for value in found] == [type(value) for value in values]


@pytest.mark.parametrize(
    "cells",
    [
        ["1999", "Nineteen"],
        ["True", "1"],
        ["yes", "no"],
        ["007", "123"],
        ["1234567890123456789"],
        ["1e999"],
        ["1e999", "0.5"],
        ["nan"],
        ["inf"],
        ["+5", ".5", "1_000"],
        ["['a', 7]"],
        ["['a'] * 9"],
        ["['a' 'b']"],
        ["[['a']]"],
        ["['a', 'b'"],
        ["['tail\nline']"],
        [r"['\q']"],
        [r"['\U00110000']"],
        ["['a\x00']"],
        ["__import__('os')"],
        ["٣"],
    ],
)
def test_what_is_not_written_in_one_kind_stays_text(cells: list[str]) -> None:
    assert read_column(*cells) == cells


def test_columns_are_judged_apart_and_what_is_read_is_json() -> None:
    rows = [{"a": "1", "b": "x", "c": r"['\ud800']"}, {"a": "", "b": "2", "c": ""}]
    kinds = ColumnKinds()
    for row in rows:
        kinds.see(row)
    assert [read_cells(row, kinds.found()) for row in rows] == [{"a": 1, "b": "x", "c": ["?"]}, {"b": "2"}]
    assert json.dumps(read_cells(rows[0], kinds.found()), ensure_ascii=False).encode()
