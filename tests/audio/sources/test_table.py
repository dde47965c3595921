"""Tables: CSV, TSV, JSONL, AudioCraft manifests; what they may point to, and what happens when they are wrong."""

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hostile import encoded, tone
from hypothesis import given, settings
from hypothesis import strategies as st

from solfa.audio.probe import probe
from solfa.audio.sources.choice import open_source
from solfa.audio.sources.followed_links import FollowedLinks
from solfa.audio.sources.location import locate_recording
from solfa.audio.sources.table import TableSource
from solfa.errors import ConfigError
from solfa.files.sorted_hashes import ROWS_PER_BLOCK

WAV = encoded(tone(100))


def write(path, content=WAV):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def recordings(path, **options):
    return list(open_source(path, **options).recordings())


def jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_csv_keeps_every_column_and_finds_the_caption(tmp_path):
    write(tmp_path / "audio/a b.wav")
    table = write(tmp_path / "t.csv", '\ufeffpath,caption,bpm,\n"audio/a b.wav","two\nlines, quoted",120,7\n\n')
    source = open_source(table)
    (recording,) = source.recordings()
    assert (recording.key, recording.uri) == ("audio/a b.wav", "audio/a b.wav")
    assert recording.caption == "two\nlines, quoted"
    assert recording.metadata == {
        "path": "audio/a b.wav", "caption": "two\nlines, quoted", "bpm": "120", "column_4": "7",
    }  # fmt: skip
    assert probe(locate_recording(source.root, recording)).num_samples == 100


@pytest.mark.parametrize("column", ["path", "file", "filename", "audio_path", "audio"])
def test_tsv_names_the_audio_in_any_usual_column(tmp_path, column):
    write(tmp_path / "x.wav")
    (recording,) = recordings(write(tmp_path / "t.tsv", f"{column}\ttext\nx.wav\thello, you\n"))
    assert recording.error is None and recording.caption == "hello, you"


def test_caption_columns_are_tried_in_order(tmp_path):
    write(tmp_path / "x.wav")
    row = {"path": "x.wav", "description": "D", "prompt": "P", "text": "T", "caption": ""}
    expected = ["T", "P", "D", None]
    rows = [{k: v for k, v in row.items() if k not in drop} for drop in ((), ("text",), ("text", "prompt"))]
    rows.append({"path": "x.wav"})
    found = recordings(write(tmp_path / "t.jsonl", jsonl(*rows)))
    assert [recording.caption for recording in found] == expected
    assert [recording.key for recording in found] == ["x.wav", "x.wav#2", "x.wav#3", "x.wav#4"]


def test_keys_are_the_ids_only_when_those_are_unique(tmp_path):
    write(tmp_path / "x.wav")
    write(tmp_path / "y.wav")
    unique = write(tmp_path / "u.jsonl", jsonl({"id": 7, "path": "x.wav"}, {"id": "b\n", "path": "y.wav"}))
    repeated = write(tmp_path / "r.jsonl", jsonl({"id": 1, "path": "x.wav"}, {"id": 1, "path": "y.wav"}))
    assert [recording.key for recording in recordings(unique)] == ["7", "b%0A"]
    assert [recording.key for recording in recordings(repeated)] == ["x.wav", "y.wav"]


def test_ytid_finds_plain_and_bracketed_names(tmp_path):
    write(tmp_path / "audio/-0Gj8-vB1q4.wav")
    write(tmp_path / "audio/deep/A title [abcdefghijk].opus")
    table = write(
        tmp_path / "t.csv", "ytid,caption\n-0Gj8-vB1q4,one\nabcdefghijk,two\nmissingxxxx,three\n-0Gj8-vB1q4,four\n"
    )
    found = recordings(table, audio_root=tmp_path / "audio")
    assert [recording.key for recording in found] == ["-0Gj8-vB1q4", "abcdefghijk", "missingxxxx", "-0Gj8-vB1q4#2"]
    assert [recording.uri for recording in found[:2]] == ["-0Gj8-vB1q4.wav", "deep/A title [abcdefghijk].opus"]
    assert "missingxxxx" in found[2].error and found[2].caption == "three"


def test_paths_must_end_inside_the_roots(tmp_path):
    secret = write(tmp_path / "secret/s.wav")
    write(tmp_path / "table/in.wav")
    (tmp_path / "table/link.wav").symlink_to(secret)
    (tmp_path / "table/inner.wav").symlink_to("in.wav")
    names = ["in.wav", "inner.wav", str(tmp_path / "table/in.wav"), "../secret/s.wav", str(secret), "link.wav"]
    names += ["../table/in.wav", "missing.wav", "bad\0name.wav"]
    table = write(tmp_path / "table/t.jsonl", jsonl(*({"path": name} for name in names)))
    found = recordings(table)
    assert [recording.error is None for recording in found] == [True] * 3 + [False] * 3 + [True] + [False] * 2
    assert all("leads out of" in found[i].error and "`audio_root`" in found[i].error for i in (3, 4, 5))
    assert "no such file: missing.wav" in found[7].error
    assert "cannot be followed" in found[8].error
    assert [recording.key for recording in found[:3]] == ["in.wav", "inner.wav", "in.wav#2"]
    allowed = recordings(table, audio_root=tmp_path)
    assert [recording.error is None for recording in allowed] == [True] * 7 + [False] * 2
    assert allowed[4].uri == allowed[5].uri == "secret/s.wav"


def test_folder_named_in_a_table_is_no_recording(tmp_path):
    (tmp_path / "x.wav").mkdir()
    (recording,) = recordings(write(tmp_path / "t.jsonl", jsonl({"path": "x.wav"})))
    assert recording.error is not None and "is a folder" in recording.error


@pytest.mark.parametrize("compressed", [False, True])
def test_audiocraft_manifest_brings_its_sidecars(tmp_path, compressed):
    write(tmp_path / "songs/a.wav")
    write(tmp_path / "songs/a.json", '{"title": "A", "description": "a song", "bpm": 99, "duration": 5}')
    write(tmp_path / "songs/b.wav")
    write(tmp_path / "info/b.json", '{"description": "elsewhere"}')
    common = {"duration": 1.5, "sample_rate": 16000, "amplitude": None, "weight": None}
    rows = jsonl(
        {"path": str(tmp_path / "songs/a.wav"), **common, "info_path": None},
        {"path": "songs/b.wav", **common, "info_path": "info/b.json"},
    )
    name = "data.jsonl.gz" if compressed else "data.jsonl"
    table = write(tmp_path / name, gzip.compress(rows.encode()) if compressed else rows)
    first, second = recordings(table)
    assert first.key == "songs/a.wav" and first.caption == "a song"
    # What the manifest itself says comes before the side-car.
    assert first.metadata["title"] == "A" and first.metadata["duration"] == 1.5
    assert second.caption == "elsewhere"


@pytest.mark.parametrize("name", ["data.jsonl", "data.jsonl.gz"])
def test_folder_with_nothing_but_a_manifest_is_that_manifest(tmp_path, name):
    write(tmp_path / "songs/a.wav")
    row = jsonl({"path": "a.wav", "duration": 1.0, "sample_rate": 8000})
    write(tmp_path / "egs/train" / name, gzip.compress(row.encode()) if name.endswith(".gz") else row)
    (recording,) = open_source(tmp_path / "egs/train", audio_root=tmp_path / "songs").recordings()
    assert recording.key.endswith("a.wav") and recording.error is None


def test_folder_that_holds_a_manifest_is_just_a_folder(tmp_path):
    write(tmp_path / "a.wav")
    write(tmp_path / "data.jsonl", jsonl({"path": "missing.wav"}))
    assert [recording.key for recording in recordings(tmp_path)] == ["a.wav"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.jsonl", '{"path": "x.wav"}\n{"path": \n', r"t\.jsonl, line 2: "),
        ("t.jsonl", '{"path": "x.wav"}\n[1]\n', r"line 2: .*object.* list"),
        ("t.jsonl", '{"title": "x"}\n', r"line 1: expected .*path, .* found title"),
        ("t.jsonl", b'{"path": "\xff"}\n', r"UTF-8.* 0xFF"),
        ("t.jsonl.gz", b"\x1f\x8b\x08 this is not gzip", r"t\.jsonl\.gz: .*decompress"),
        ("t.csv", "path,caption\nx.wav\n", r"t\.csv, line 2: expected 2 columns, found 1"),
        ("t.csv", "path,caption\nx.wav,a,b\n", r"line 2: expected 2 columns, found 3"),
        ("t.csv", 'path\n"x.wav\n', r"line 2: .*end of data"),
        ("t.csv", "a/x.wav,a tune\na/y.wav,another\n", r"line 1: expected the names.*found.* a/x\.wav.*path,caption"),
        ("t.csv", "x.flac\n", r"line 1: expected the names.*x\.flac"),
        ("t.csv", "path,path\nx.wav,y.wav\n", r"line 1: .*'path' twice"),
    ],
)
def test_malformed_table_is_named_with_its_line(tmp_path, name, content, message):
    with pytest.raises(ConfigError, match=message):
        recordings(write(tmp_path / name, content))


def test_metadata_is_strict_json(tmp_path):
    write(tmp_path / "x.wav")
    content = '{"path": "x.wav", "a": NaN, "b": [Infinity], "c": "\\ud800", "d": {"e": -Infinity}}\n'
    (recording,) = recordings(write(tmp_path / "t.jsonl", content))
    assert recording.metadata == {"path": "x.wav", "a": None, "b": [None], "c": "?", "d": {"e": None}}
    json.dumps(recording.metadata, allow_nan=False).encode()


def test_links_that_are_remembered_lead_where_they_lead(tmp_path):
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "real/deep/a.wav").write_bytes(WAV)
    (tmp_path / "folder").symlink_to("real/deep")
    (tmp_path / "real/b.wav").symlink_to("deep/a.wav")
    (tmp_path / "real/dangling.wav").symlink_to("nowhere.wav")
    (tmp_path / "loop").symlink_to("loop")
    links = FollowedLinks()
    names = "real/deep/a.wav", "folder/a.wav", "folder/../b.wav", "real/b.wav", "real/dangling.wav", "real/missing.wav"
    for name in (*names, "real/..", "real/.", "missing/../real/b.wav", ".", "real/deep", "folder", *names):
        assert links.follow(tmp_path / name) == (tmp_path / name).resolve(), name
    with pytest.raises((RuntimeError, OSError)):
        links.follow(tmp_path / "loop")


def test_plain_rows_are_described_as_any_other_rows(tmp_path, monkeypatch):
    """A shorter way is taken for what most rows name; it must not be told from the long one."""
    for name in ("a.wav", "deep/er/b.wav", "deep/ü%.wav", "x/a b.wav"):
        write(tmp_path / "audio" / name)
    write(tmp_path / "here.wav")
    (tmp_path / "audio/folder").symlink_to("deep/er")
    (tmp_path / "audio/out").symlink_to(tmp_path)
    (tmp_path / "audio/link.wav").symlink_to("a.wav")
    (tmp_path / "audio/dangling.wav").symlink_to("nowhere")
    names = [
        *("a.wav", "deep/er/b.wav", "deep/ü%.wav", "x/a b.wav", "folder/b.wav", "link.wav", "dangling.wav", "here.wav"),
        *("./a.wav", "deep//er/b.wav", "deep/../a.wav", "../here.wav", "out/here.wav", "missing.wav", "no/a.wav"),
        *(str(tmp_path / "audio/a.wav"), "deep", "deep/", ".", "..", "/", "a.wav/", "x\0y.wav", "...", "a..b.wav"),
    ]
    rows = [{"path": name, "text": f"number {index}"} for index, name in enumerate(names)]
    with_ids = [{**row, "id": index} for index, row in enumerate(rows)]
    tables = [write(tmp_path / f"{index}.jsonl", jsonl(*lines)) for index, lines in enumerate((rows, with_ids))]
    bare = write(tmp_path / "bare.jsonl", jsonl({"path": "a.wav"}, {"path": "a.wav", "id": 3}))
    roots = (tmp_path / "audio", tmp_path, None)
    found = [recordings(table, audio_root=root) for table in (*tables, bare) for root in roots]
    assert {recording.error is None for recording in found[0]} == {True, False}
    monkeypatch.setattr(TableSource, "_plain_recording", lambda self, name, values, own_id: None)
    assert found == [recordings(table, audio_root=root) for table in (*tables, bare) for root in roots]


def test_ids_are_keys_only_if_each_is_another(tmp_path):
    write(tmp_path / "x.wav")
    for ids, expected in (
        ([1, "2", "b"], ["1", "2", "b"]),
        ([1, "1"], ["x.wav", "x.wav#2"]),
        (["a", None], ["x.wav", "x.wav#2"]),
        (["a", "b", "a"], ["x.wav", "x.wav#2", "x.wav#3"]),
    ):
        rows = [{"path": "x.wav", "id": value} for value in ids]
        assert [one.key for one in recordings(write(tmp_path / "t.jsonl", jsonl(*rows)))] == expected


@pytest.mark.parametrize(("last", "expected"), [("0", "x.wav"), ("00", "0"), ("", "x.wav")])
def test_ids_are_compared_however_many_are_between_them(tmp_path, last, expected):
    write(tmp_path / "x.wav")
    ids = [*map(str, range(2 * ROWS_PER_BLOCK)), last]
    table = write(tmp_path / "t.csv", "id,path\n" + "".join(f"{one},x.wav\n" for one in ids))
    assert next(iter(open_source(table).recordings())).key == expected


NAMES = [
    "a.wav",
    "b.wav",
    "b.wav#2",
    "./a.wav",
    "d/../a.wav",
    "d//c.wav",
    "d/c.wav",
    "{root}/d/c.wav",
    "ä\u0085.wav",
    ".",
]


@settings(max_examples=60, deadline=None)
@given(names=st.lists(st.sampled_from(NAMES), max_size=5), others=st.sampled_from(["", "other", "file", "ytid"]))
def test_paths_that_are_compared_before_give_the_keys_that_they_give_one_after_the_other(names, others):
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patches:
        root = Path(folder)
        for name in ("a.wav", "b.wav", "d/c.wav"):
            write(root / name)
        rows = "".join(f'"{name.format(root=root)}",{"b.wav" if index else ""}\n' for index, name in enumerate(names))
        table = write(root / "t.csv", f"path,{others}\n{rows}")
        found = recordings(table)
        patches.setattr(TableSource, "_has_unique_paths", lambda self: False)
        assert found == recordings(table)


def test_where_each_row_names_another_file_keys_are_not_kept(tmp_path, monkeypatch):
    rows = [f"{write(tmp_path / f'{number}.wav').name},{number % 2}" for number in range(4)]
    table = write(tmp_path / "t.csv", "path,id\n" + "\n".join(rows))
    monkeypatch.setattr("solfa.audio.sources.table.UniqueKeys", None)
    assert [recording.key for recording in recordings(table)] == ["0.wav", "1.wav", "2.wav", "3.wav"]


def test_a_broken_row_is_told_when_it_is_listed(tmp_path):
    write(tmp_path / "x.wav")
    listed = open_source(write(tmp_path / "t.csv", "path\nx.wav\ny.wav,7\n")).recordings()
    assert next(iter(listed)).key == "x.wav"
    with pytest.raises(ConfigError, match=r"line 3: expected 1 columns, found 2"):
        list(listed)
