"""Which row is about which clip."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from solfa.data.table import row_match as joining
from solfa.data.table.clip_table import ClipTable
from solfa.data.table.joined_clips import JoinedRows
from solfa.data.table.row_match import join_table
from solfa.errors import ConfigError


def joined(folder: Path, keys: list[str], recordings: list[str], **values: Any) -> JoinedRows:
    lines = [json.dumps({"k": key, "caption": f"row {number}"}) for number, key in enumerate(keys)]
    (folder / "t.jsonl").write_text("\n".join(lines))
    table = ClipTable(path=str(folder / "t.jsonl"), key="k", **values)
    return join_table(table, recordings, "d.solfa")


def captions(rows: JoinedRows) -> list[str | None]:
    return [rows.caption(index, None) for index in range(len(rows))]


def test_clips_get_the_row_of_their_recording_in_whatever_order(tmp_path: Path) -> None:
    found = joined(tmp_path, ["c", "x/b.wav", "unused", "a"], ["a.wav", "a.wav", "x/b.wav", "c.mp3", "a.wav"])
    assert captions(found) == ["row 3", "row 3", "row 1", "row 0", "row 3"]
    assert len(found.texts) == 3, "rows that no clip needs are not kept"


def test_the_whole_path_counts_before_the_name_alone(tmp_path: Path) -> None:
    keys = ["01", "cd2/01", "cd3/01.wav"]
    found = joined(tmp_path, keys, ["cd1/01.wav", "cd2/01.wav", "cd3/01.wav"])
    assert captions(found) == ["row 0", "row 1", "row 2"]


def test_one_row_for_two_recordings_is_refused_unless_a_pattern_asks_for_it(tmp_path: Path) -> None:
    recordings = ["cd1/01.wav", "cd2/01.wav"]
    with pytest.raises(ConfigError, match=r"k '01' .*'cd1/01\.wav' and 'cd2/01\.wav'.*pattern"):
        joined(tmp_path, ["01"], recordings)
    assert captions(joined(tmp_path, ["01"], recordings, pattern="/(?P<key>.*)[.]wav")) == ["row 0", "row 0"]


def test_clips_without_a_row_are_kept_and_told_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, joining.__name__):
        found = joined(tmp_path, ["b", "", "z"], ["a.wav", "b.wav", "c.wav"])
    assert captions(found) == [None, "row 0", None]
    [line] = caplog.messages
    assert re.search(r"1 of 3 clips of d\.solfa .*\b3 rows.*'a\.wav', rows without k: 1$", line)


@pytest.mark.parametrize(
    ("values", "needs"),
    [
        ({}, "'x/a_30.wav' or 'x/a_30' or 'a_30' as k"),
        ({"pattern": "=(?P<key>.*)"}, "the pattern does not"),
    ],
)
def test_that_nothing_matches_is_an_error_with_both_names(tmp_path: Path, values: dict[str, str], needs: str) -> None:
    with pytest.raises(ConfigError) as caught:
        joined(tmp_path, ["q", "r"], ["x/a_30.wav", "x/b_30.wav"], **values)
    assert needs in str(caught.value)
    assert re.search(r"first clip .*'x/a_30\.wav'.*first row .*'q'.*pattern", str(caught.value))


def test_a_dataset_without_clips_needs_no_rows(tmp_path: Path) -> None:
    assert len(joined(tmp_path, ["a"], [])) == 0


def test_a_key_with_two_different_rows_is_named_and_equal_rows_are_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    table = ClipTable(path=str(path), key="k", caption=None)
    path.write_text("k,x,y\na,1,2\nb,3,4\na,1,2\n")
    assert join_table(table, ["a.wav", "b.wav"], "d").metadata(0, {}) == {"k": "a", "x": 1, "y": 2}
    path.write_text("k,x,y\na,1,2\nb,3,4\na,1,5\n")
    for recordings in (["a.wav"], ["b.wav"]):
        with pytest.raises(ConfigError, match=rf"{path}, line 4: .*\bk 'a'"):
            join_table(table, recordings, "d")


def test_rows_of_several_chunks_stay_with_their_clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "ROWS_PER_CHUNK", 3)
    keys = [str(number) for number in range(11)]
    found = joined(tmp_path, keys, [f"{number}.wav" for number in reversed(range(11))])
    assert found.texts.num_chunks == 4
    assert captions(found) == [f"row {number}" for number in reversed(range(11))]
