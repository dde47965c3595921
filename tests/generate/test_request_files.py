"""Captions come from text, tables and JSON lines; what is wrong in them is answered with file, row and reason."""

from pathlib import Path

import pytest

from solfa.errors import ConfigError
from solfa.generate.request import ClipRequest
from solfa.generate.request_files import read_requests

DEFAULTS = ClipRequest("clip", 4.0, 10, None, {"genre": "folk"}, Path("riff.wav"), 0.5)


def read(path: Path, content: str | bytes) -> list[ClipRequest]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_requests(path, DEFAULTS)


def test_each_line_of_a_text_is_a_caption_and_seeds_count_up(tmp_path: Path) -> None:
    requests = read(tmp_path / "captions.txt", "a warm piano\n\n  drums, fast \r\nrain")
    assert [(one.name, one.text, one.seed) for one in requests] == [
        *(("0000", "a warm piano", 10), ("0001", "drums, fast", 11), ("0002", "rain", 12))
    ]
    for one in requests:
        assert (one.seconds, one.conditions) == (4.0, {"genre": "folk"})
        assert (one.prompt, one.prompt_seconds) == (Path("riff.wav"), 0.5)


def test_columns_of_a_table_are_captions_names_numbers_and_conditions(tmp_path: Path) -> None:
    requests = read(
        tmp_path / "captions.csv",
        'caption,name,seconds,seed,genre,bpm\n"a piano, slowly",one,2.5,7,jazz,90\nrain,,,,,\n',
    )
    assert requests == [
        ClipRequest("one", 2.5, 7, "a piano, slowly", {"genre": "jazz", "bpm": "90"}, Path("riff.wav"), 0.5),
        ClipRequest("0001", 4.0, 11, "rain", {"genre": "folk"}, Path("riff.wav"), 0.5),
    ]


def test_json_lines_keep_the_types_of_their_values(tmp_path: Path) -> None:
    requests = read(
        tmp_path / "captions.jsonl",
        '{"text": "rain", "seconds": 3, "tags": ["a", "b"], "bpm": 90}\n\n{"name": "x", "genre": null}\n',
    )
    assert [(one.name, one.text, one.seconds, one.conditions) for one in requests] == [
        ("0000", "rain", 3.0, {"genre": "folk", "tags": ["a", "b"], "bpm": 90}),
        ("x", None, 4.0, {"genre": "folk"}),
    ]


def test_a_caption_may_hold_any_character(tmp_path: Path) -> None:
    odd = "one\u2028two\x85three\x0bfour"
    (from_text,) = read(tmp_path / "a.txt", f"{odd}\n")
    (from_json,) = read(tmp_path / "a.jsonl", f'{{"caption": "{odd}"}}\n'.replace("\x0b", "\\u000b"))
    (from_table,) = read(tmp_path / "a.csv", f'caption\n"{odd}\nfive, ""six"""\n')
    assert from_text.text == from_json.text == odd
    assert from_table.text == f'{odd}\nfive, "six"'


@pytest.mark.parametrize("name", ["captions.CSV", "captions.csv"])
def test_excels_mark_and_large_letters_do_no_harm(name: str, tmp_path: Path) -> None:
    (one,) = read(tmp_path / name, "\ufeffcaption\r\nrain\r\n")
    assert one.text == "rain"


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.txt", "\n \n", "a.txt: expected at least one caption, found none"),
        ("a.csv", "caption\n", "a.csv: expected at least one caption, found none"),
        ("a.md", "rain", r"a.md: expected captions as \.txt, \.csv or \.jsonl, found \.md"),
        ("captions", "rain", "found no extension"),
        ("a.txt", b"caf\xe9", "a.txt: expected UTF-8, found other bytes at position 3"),
        ("a.csv", "name,text\nx,a\nx,b\n", "a.csv: .*found 'x' more than once"),
        ("a.csv", "caption,text\na,b\n", "a.csv, row 1: .*caption and text"),
        ("a.csv", "caption\nok\na, b\n", "a.csv, line 3: .*1 columns, found 2"),
        ("a.csv", 'caption\nok\n"a\n', "a.csv, line 3: unexpected end"),
        ("a.csv", "text,seconds\na,long\n", "a.csv, row 1: .*seconds.*found 'long' and 10"),
        ("a.csv", "text,seed\na,\nb,1.5\n", "a.csv, row 2: .*seed.*found 4.0 and '1.5'"),
        ("a.csv", "text,seconds\na,1\nb,-1\n", "a.csv, row 2: clip '0001': .*seconds above 0, found -1"),
        ("a.csv", "text,seconds\na,nan\n", "a.csv, row 1: clip '0000': .*seconds above 0, found nan"),
        ("a.jsonl", '{"seconds": [1]}', r"a.jsonl, row 1: .*seconds.*found \[1\] and 10"),
        ("a.jsonl", '{"seed": -4}', "a.jsonl, row 1: clip '0000': .*seed from 0"),
        ("a.jsonl", '{"a": 1}\n{"a": ', "a.jsonl, line 2: "),
        ("a.jsonl", '"rain"', "a.jsonl, line 1: .*found str"),
    ],
)
def test_what_is_wrong_gets_one_sentence(name: str, content: str | bytes, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^{tmp_path}/.*{sentence}[^\n]*$"):
        read(tmp_path / name, content)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.txt", tmp_path):
        with pytest.raises(ConfigError, match=rf"^{path}: no such file.*\.jsonl"):
            read_requests(path, DEFAULTS)
