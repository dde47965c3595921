"""The index of clips: whatever metadata holds, a search answers, and it answers what a slow one would."""

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from solfa.store.shard_reader import FailedClip
from solfa.studio.datasets.clip_index import ClipIndex
from solfa.studio.datasets.clip_query import ClipQuery

TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.lists(st.integers(), max_size=2)
CLIPS = st.lists(
    st.tuples(TEXTS, st.floats(0, 9), st.none() | TEXTS, st.dictionaries(st.sampled_from("abc"), VALUES)), max_size=6
)


def index_of(
    clips: list[tuple[str, float, str | None, dict[str, Any]]], metadata: list[str] | None = None
) -> ClipIndex:
    columns = {
        "id": pa.array([clip[0] for clip in clips], pa.string()),
        "seconds": pa.array([clip[1] for clip in clips], pa.float64()),
        "caption": pa.array([clip[2] for clip in clips], pa.string()),
        "metadata": pa.array(metadata or [json.dumps(clip[3]) for clip in clips], pa.string()),
    }
    return ClipIndex(pa.table(columns), [FailedClip("broken", "cannot be read", "uri", "broken")])


@settings(max_examples=40)
@given(CLIPS, st.sampled_from(["a", "E", "ß", "\u0130", "7", "cannot", "\u0301"]))
def test_a_search_finds_what_is_in_a_text_of_a_clip(clips: Any, word: str) -> None:
    found = {*index_of(clips).numbers(ClipQuery(words=(word,))).tolist()}
    for number, (clip_id, _, caption, metadata) in enumerate(clips):
        texts = [clip_id, caption or "", *(value for value in metadata.values() if isinstance(value, str))]
        if any(word.casefold() in text.casefold() for text in texts if text.isascii()):
            assert number in found
        if not any(texts) and not any(value is not None for value in metadata.values()):
            assert number not in found
    assert (len(clips) in found) == (word in ("a", "E", "cannot"))


@settings(max_examples=40)
@given(CLIPS, st.sampled_from(["id", "seconds", "caption", "meta.a", "meta.none"]), st.booleans())
def test_sorting_keeps_every_clip(clips: Any, sort: str, is_descending: bool) -> None:
    found = index_of(clips).numbers(ClipQuery(sort=sort, is_descending=is_descending)).tolist()
    assert sorted(found) == list(range(len(clips) + 1))
    if sort == "seconds":
        seconds = [clips[number][1] for number in found[:-1]]
        assert seconds == sorted(seconds, reverse=is_descending)
        assert found[-1] == len(clips)  # which has no length


def test_metadata_that_nobody_expects_is_searched_as_well_as_it_can_be() -> None:
    strange = [
        "[1]",
        "no JSON",
        "[" * 100_000,
        json.dumps({"a": 10**400}),
        '{"a": NaN}',
        '{"a": "\\ud800"}',
        '{"a": 3}',
    ]
    clips = [(str(number), 1.0, None, {}) for number in range(len(strange))]
    index = index_of(clips, strange)
    assert index.numbers(ClipQuery(column="a", value="3")).tolist() == [6]
    assert index.numbers(ClipQuery(words=("000000000000",))).tolist() == [3]
    assert index.find(ClipQuery()).num_found == len(strange) + 1
