"""Tables of every kind are read row by row, and what is malformed is named with its line."""

import gzip

import pytest

from solfa.errors import ConfigError
from solfa.files.table_rows import is_table_name, read_rows


def test_the_kinds_of_tables_give_the_same_rows(tmp_path):
    for name, content in {
        "t.csv": b"\xef\xbb\xbfid,text\n1,a rain\n",
        "t.tsv": b"id\ttext\n1\ta rain\n",
        "t.jsonl": b'\n{"id": "1", "text": "a rain"}\n',
        "t.jsonl.gz": gzip.compress(b'{"id": "1", "text": "a rain"}'),
    }.items():
        (tmp_path / name).write_bytes(content)
        assert [row.values for row in read_rows(tmp_path / name)] == [{"id": "1", "text": "a rain"}]
        assert is_table_name(name.upper())
    assert not is_table_name("t.txt")


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("t.csv", b"a,b\n1\n", "line 2: .*2 columns, found 1"),
        ("t.csv", b"a,a\n1,2\n", "line 1: .*found 'a' twice"),
        ("t.jsonl", b'{"a": 1}\n[2]\n', "line 2: .*found list"),
        ("t.jsonl", b"\xff\n", "UTF-8"),
        ("t.jsonl.gz", b"no gzip", "cannot be read"),
    ],
)
def test_a_malformed_row_is_named_by_its_line(tmp_path, name, content, fault):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=fault):
        list(read_rows(tmp_path / name))
