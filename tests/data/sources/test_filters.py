"""Conditions on what is known about clips: what they keep, and what is answered when they cannot be meant."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from solfa.config import Config, parse_config
from solfa.data.sources.columns import ClipColumns
from solfa.data.sources.filters import Criterion, Where, condition_holds, kept_clips
from solfa.errors import ConfigError
from solfa.store.layout import read_info, read_manifest
from tests.data.stored import Described, store

CLIPS = [
    Described("rock/a.wav", 10, "loud", {"genre": "rock", "bpm": 120, "tags": ["live", "old"], "vocals": True}),
    Described("rock/b.wav", 50, None, {"genre": "rock", "bpm": 90.5, "vocals": 1}),
    Described("jazz/c.wav", 30, "", {"genre": "jazz", "tags": [], "bpm": None}),
    Described("jazz/d.wav", 30, "quiet", {"genre": "Jazz", "tags": ["new"]}),
    Described("e.wav", 100),
]


class Settings(Config):
    where: Where


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> ClipColumns:
    root = store(tmp_path_factory.mktemp("filters") / "d.solfa", CLIPS)
    for path in root.glob("data/*"):
        path.unlink()  # so that reading an array would fail
    return ClipColumns(root, read_manifest(root, 1).commits, read_info(root).array)


def kept(columns: ClipColumns, **where: Any) -> list[str]:
    parsed = parse_config(Settings, {"where": where}, "dset").where
    return [clip.id[-5] for clip, keep in zip(CLIPS, kept_clips(columns, parsed), strict=True) if keep]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"genre": "rock"}, "ab"),
        ({"genre": ["jazz", "Jazz"]}, "cd"),
        ({"genre": {"glob": "[jJ]azz"}}, "cd"),
        ({"genre": {"glob": "j*"}}, "c"),
        ({"genre": None}, "e"),
        ({"bpm": 120}, "a"),
        ({"bpm": 120.0}, "a"),
        ({"bpm": {"min": 90.5}}, "ab"),
        ({"bpm": {"max": 100}}, "b"),
        ({"bpm": {"present": False}}, "cde"),
        ({"tags": "live"}, "a"),
        ({"tags": ["new", "old"]}, "ad"),
        ({"tags": {"present": True}}, "ad"),
        ({"vocals": True}, "a"),
        ({"vocals": 1}, "b"),
        ({"caption": {"present": True}}, "ad"),
        ({"id": {"glob": "rock/*"}}, "ab"),
        ({"seconds": {"min": 3, "max": 5}}, "bcd"),
        ({"num_frames": {"min": 31}}, "be"),
        ({"num_frames": 30, "genre": "Jazz"}, "d"),
        ({}, "abcde"),
    ],
)
def test_the_clips_are_kept_for_which_all_conditions_hold(
    columns: ClipColumns, where: dict[str, Any], expected: str
) -> None:
    assert kept(columns, **where) == list(expected)


def test_an_unknown_column_is_answered_with_those_that_exist(columns: ClipColumns) -> None:
    known = "id, caption, seconds, num_frames, bpm, genre, tags, vocals"
    with pytest.raises(ConfigError, match=rf"'genra'.*did you mean 'genre'\?.*{known}"):
        kept(columns, genra="rock")


def test_conditions_that_leave_nothing_are_refused_with_some_values(columns: ClipColumns) -> None:
    with pytest.raises(ConfigError, match=r"where: .*\b5\b.*'genre'.*'rock', 'jazz', 'Jazz', None"):
        kept(columns, genre="folk")
    with pytest.raises(ConfigError, match=r"where: .*'genre' and 'caption' together"):
        kept(columns, genre="rock", caption="quiet")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"mim": 3}, "mim: .*did you mean 'min'"),
        ({}, "min, max, glob, present"),
        ({"min": 3, "max": 2}, r"min .*3\.0.*max .*2\.0"),
        ({"min": "many"}, "min: .*number.*'many'"),
        ([["a"]], r"where\.genre\.one_of\.0"),
    ],
)
def test_conditions_that_cannot_be_meant_are_refused(condition: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_config(Settings, {"where": {"genre": condition}}, "dset")


def test_conditions_survive_being_written_and_read_again() -> None:
    before = parse_config(Settings, {"where": {"a": {"min": 3}, "b": [1, "x"], "c": None, "d": True}}, "dset")
    assert parse_config(Settings, before.model_dump(mode="json"), "dset") == before


def test_text_is_not_a_number_and_bounds_need_one() -> None:
    parse = TypeAdapter(Criterion).validate_python
    assert not condition_holds(parse(7), "7")
    assert not condition_holds(parse({"min": 0}), "7")
    assert not condition_holds(parse({"min": 0}), True)
    assert not condition_holds(parse({"glob": "*"}), 7)


def test_columns_of_a_selection_are_those_of_its_clips(columns: ClipColumns) -> None:
    some = columns.select(np.array([4, 0])).select(np.array([1]))
    assert (len(some), some.values("id"), some.values("bpm")) == (1, ["rock/a.wav"], [120])


def test_nothing_read_is_pickled(columns: ClipColumns) -> None:
    columns.values("bpm")
    assert set(columns.__getstate__()) == {"path", "_commits", "_spec", "_rows", "joined"}
    assert isinstance(columns.path, Path)


def test_files_may_list_the_values_to_keep_or_to_leave_out(columns: ClipColumns, tmp_path: Path) -> None:
    first, second = tmp_path / "valid.txt", tmp_path / "test.txt"
    first.write_text("rock/a.wav\njazz/c.wav\n\nnowhere.wav\n")
    second.write_text("e.wav")
    assert kept(columns, id={"listed": str(first)}) == ["a", "c"]
    assert kept(columns, id={"listed": [str(first), str(second)]}) == ["a", "c", "e"]
    assert kept(columns, id={"unlisted": [str(first), str(second)]}) == ["b", "d"]
    assert kept(columns, id={"listed": str(first), "glob": "jazz/*"}) == ["c"]
    with pytest.raises(ConfigError, match=r"where: .*absent\.txt .*No such file"):
        kept(columns, id={"listed": str(tmp_path / "absent.txt")})
