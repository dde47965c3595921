"""What a person may write about a table, and what its rows are found to hold."""

import json
from pathlib import Path
from typing import Any

import pytest

from solfa.config import parse_config
from solfa.data.table.clip_table import ClipTable, index_table, keyed_rows
from solfa.errors import ConfigError
from solfa.files.digest import file_sha256


@pytest.mark.parametrize(
    ("recording", "names"),
    [
        ("abc.wav", ("abc.wav", "abc")),
        ("train/01/abc.FLAC", ("train/01/abc.FLAC", "train/01/abc", "abc")),
        ("-0Gj8-vB1q4", ("-0Gj8-vB1q4",)),
        ("take.v2", ("take.v2",)),
        ("a/take.v2.wav", ("a/take.v2.wav", "a/take.v2", "take.v2")),
        ("100%25 live.mp3", ("100% live.mp3", "100% live")),
    ],
)
def test_a_recording_is_known_by_its_path_and_by_its_name(recording: str, names: tuple[str, ...]) -> None:
    assert ClipTable(path="t.csv", key="k").names_of(recording) == names


@pytest.mark.parametrize(
    ("pattern", "recording", "names"),
    [
        (r"\[(?P<key>[\w-]{11})\]", "x/[-0Gj8-vB1q4]-[30-40].wav", ("-0Gj8-vB1q4",)),
        (r"(?P<key>[\w-]{11})_[0-9]+\.", "x/_a_4w9W_XcQ_30.wav", ("_a_4w9W_XcQ",)),
        (r"(?P<key>[\w-]{11})_[0-9]+\.", "short_30.wav", ()),
        ("^x(?P<key>y)?", "xz.wav", ()),
    ],
)
def test_a_pattern_finds_the_key_and_nothing_else_does(pattern: str, recording: str, names: tuple[str, ...]) -> None:
    assert ClipTable(path="t.csv", key="k", pattern=pattern).names_of(recording) == names


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"pattern": "("}, "pattern: .*regular expression.*missing "),
        ({"pattern": "(?P<name>.*)"}, "pattern: .*group named key"),
        ({"sha256": "abc"}, "sha256: .*pattern"),
        ({"captions": "x"}, "captions: .*did you mean 'caption'"),
        ({"path": None}, "path: .*string"),
    ],
)
def test_what_cannot_be_meant_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_config(ClipTable, {"path": "t.csv", "key": "k", **values}, "table")


def written(folder: Path, text: str, name: str = "t.csv", **values: Any) -> ClipTable:
    (folder / name).write_text(text, encoding="utf-8")
    return ClipTable(path=str(folder / name), **{"key": "k", "caption": "c", **values})


def rows_of(table: ClipTable) -> dict[str, dict[str, Any]]:
    index = index_table(table)
    return {row.key: row.values for row in keyed_rows(table, index, set(range(index.num_rows)))}


def test_columns_of_a_csv_are_typed_but_keys_and_captions_are_texts(tmp_path: Path) -> None:
    table = written(tmp_path, "k,c,eval,bpm\n017,1984,True,90\n18,2001,False,\n")
    assert rows_of(table) == {
        "017": {"k": "017", "c": "1984", "eval": True, "bpm": 90},
        "18": {"k": "18", "c": "2001", "eval": False},
    }
    same = written(tmp_path, table.file.read_text().replace(",", "\t"), "t.tsv")
    assert rows_of(same) == rows_of(table)


def test_jsonl_says_itself_what_its_values_are(tmp_path: Path) -> None:
    lines = [{"k": 17, "c": "x", "n": "90", "tags": ["a"], "none": None}, {"k": "b", "n": True}, {"k": None}, {"n": 1}]
    table = written(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "t.jsonl")
    index = index_table(table)
    assert (index.num_rows, index.num_keyless, index.positions) == (4, 2, {"17": 0, "b": 1})
    assert rows_of(table) == {"17": {"k": 17, "c": "x", "n": "90", "tags": ["a"]}, "b": {"k": "b", "n": True}}


def test_only_wanted_rows_and_repeated_ones_are_read(tmp_path: Path) -> None:
    table = written(tmp_path, "k,c\na,1\nb,2\nc,3\nb,4\n,5\n")
    index = index_table(table)
    assert index.positions == {"a": 0, "b": 1, "c": 2} and index.repeated == {"b"} and index.num_keyless == 1
    assert [(row.position, row.line, row.key) for row in keyed_rows(table, index, {2})] == [
        (1, 3, "b"),
        (2, 4, "c"),
        (3, 5, "b"),
    ]


@pytest.mark.parametrize(
    ("text", "values", "words"),
    [
        ("k,c\na,b\n", {"key": "kk"}, r"'kk'.*did you mean 'k'\?.*key .*k, c"),
        ("k,c\na,b\n", {"caption": "text"}, "'text'.*caption .*k, c.*null"),
        ("", {}, r"t\.csv: expected .*rows, found none"),
        ("k,c\n", {}, r"t\.csv: expected .*rows, found none"),
        ("k,c\na\n", {}, "line 2: expected 2 columns, found 1"),
    ],
)
def test_tables_that_do_not_have_what_is_needed_are_refused(
    tmp_path: Path, text: str, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        index_table(written(tmp_path, text, **values))


def test_a_table_without_captions_is_one_too(tmp_path: Path) -> None:
    assert rows_of(written(tmp_path, "k,genre\na,jazz\n", caption=None)) == {"a": {"k": "a", "genre": "jazz"}}


def test_a_pinned_table_is_refused_after_a_change(tmp_path: Path) -> None:
    table = written(tmp_path, "k,c\na,b\n")
    pinned = table.pinned()
    assert pinned.sha256 == file_sha256(table.file) and pinned.pinned() == pinned and table.sha256 is None
    written(tmp_path, "k,c\na,B\n")
    assert table.pinned() != pinned
    with pytest.raises(ConfigError, match=r"t\.csv: expected .*SHA-256 .*changed"):
        pinned.content_sha256()


@pytest.mark.parametrize(
    ("name", "words"),
    [("missing.csv", r"missing\.csv: .*No such file"), ("t.xlsx", r"t\.xlsx: expected .*\.csv")],
)
def test_files_that_are_no_table_are_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ClipTable(path=str(tmp_path / name), key="k").content_sha256()
