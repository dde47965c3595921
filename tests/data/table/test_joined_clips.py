"""What is known of a clip from its dataset and from a table."""

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from solfa.data.sources.clip_source import ClipSource, MemoryClips
from solfa.data.table.clip_table import ClipTable
from solfa.data.table.joined_clips import JoinedClips, JoinedRows
from solfa.store.planned_clip import metadata_text


def rows(*texts: dict[str, Any], of: list[int], **values: Any) -> JoinedRows:
    table = ClipTable(path="t.csv", key="k", **values)
    return JoinedRows(table, pa.chunked_array([[metadata_text(text) for text in texts]]), np.array(of, np.int64))


OWN = {"genre": "jazz", "caption": "own", "year": 1999}
ROW = {"k": "a", "genre": "folk", "caption": "from the table", "bpm": 90}


def test_what_the_dataset_says_comes_first_but_for_the_caption() -> None:
    found = rows(ROW, of=[0, -1])
    expected = {"k": "a", "genre": "jazz", "caption": "from the table", "bpm": 90, "year": 1999}
    assert found.metadata(0, OWN) == expected and found.caption(0, "own") == "from the table"
    assert found.metadata(1, OWN) == OWN and found.caption(1, "own") == "own"


def test_a_table_that_overwrites_comes_first() -> None:
    assert rows(ROW, of=[0], overwrite=True).metadata(0, OWN) == {**OWN, **ROW}


def test_a_table_without_a_caption_column_leaves_captions_alone() -> None:
    found = rows(ROW, of=[0], caption=None)
    assert found.caption(0, "own") == "own" and found.metadata(0, OWN)["caption"] == "own"


@pytest.mark.parametrize(
    ("value", "caption"), [("  a harp ", "a harp"), (["a harp", "strings"], "a harp"), ("", "own"), (7, "own")]
)
def test_a_caption_is_a_text_or_the_first_of_several(value: Any, caption: str) -> None:
    assert rows({"text": value}, of=[0], caption="text").caption(0, "own") == caption


def test_only_the_rows_of_the_selected_clips_are_pickled() -> None:
    some = rows(*({"k": str(number)} for number in range(5)), of=[4, -1, 2, 2, 0]).select(np.array([0, 1, 3]))
    copy = pickle.loads(pickle.dumps(some))
    for found in (some, copy):
        assert [found.metadata(index, {}) for index in range(3)] == [{"k": "4"}, {}, {"k": "2"}]
    assert len(some.texts) == 5 and len(copy.texts) == 2
    assert pickle.loads(pickle.dumps(some.select(np.array([1])))).metadata(0, OWN) == OWN


def test_joined_clips_are_the_same_clips_in_the_same_order(clips: MemoryClips) -> None:
    source = JoinedClips(clips, rows({"caption": "new", "index": -1}, of=[0] + [-1] * (len(clips) - 1)))
    assert isinstance(source, ClipSource)
    assert (source.digest, len(source)) == (clips.digest, len(clips)) and source.num_frames is clips.num_frames
    first, second = source[0], source[1]
    assert (first.id, first.caption, first.metadata) == (clips[0].id, "new", {"index": 0, "caption": "new"})
    assert first.array is clips[0].array
    assert (second.caption, second.metadata) == (clips[1].caption, clips[1].metadata)
