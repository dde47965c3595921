"""A plan that somebody else began reads only what our source names; ours finds what is new and what has changed."""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import solfa
from solfa.audio.recording import Recording
from solfa.encoding import frozen_plan
from solfa.encoding.fingerprint import EncodeSettings, dataset_info
from solfa.encoding.frozen_plan import PlanningReport, extend_plan
from solfa.encoding.planned_recordings import Known, PlannedRecordings
from solfa.encoding.recording_versions import Version
from solfa.errors import StoreError
from solfa.store.layout import create_info
from solfa.store.plan_file import PLAN_SCHEMA, iterate_plan_columns, write_plan_part
from solfa.store.planned_clip import PlannedClip
from tests.conftest import write_tone

CODEC = "mulaw:bits=8,sample_rate=8000"


def begun(dest: Path, uri: str, stop: int = 1600, times: int = 1, **lie: int) -> None:
    """Plan a dataset of one clip (or the same several times) and encode nothing of it, as a killed run leaves it."""
    create_info(dest, dataset_info(solfa.load_codec(CODEC), EncodeSettings()))
    facts = {"source_sample_rate": 8000, "source_num_channels": 1, "source_num_samples": 1600, "source_format": "WAV"}
    clip = replace(PlannedClip("a.wav", "a.wav", uri, stop=stop, num_samples=stop, **facts), **lie)
    write_plan_part(dest, 0, iter([pa.Table.from_pylist([clip.as_row()] * times, schema=PLAN_SCHEMA)]))


@pytest.mark.parametrize(
    "uri",
    [
        "{home}/secret.wav",
        "../home/secret.wav",
        "%2e%2E/home/secret.wav",
        "%2F{home}/secret.wav",
        "s3://bucket.invalid/secret.wav",
    ],
)
def test_a_foreign_plan_reads_nothing_outside_the_source(tmp_path: Path, uri: str) -> None:
    write_tone(tmp_path / "home/secret.wav", 0.2, 8000)
    write_tone(tmp_path / "audio/mine.wav", 0.2, 8000)
    begun(tmp_path / "x.solfa", uri.format(home=tmp_path / "home"))
    with pytest.raises(StoreError, match=r"secret\.wav"):
        solfa.encode(tmp_path / "audio", tmp_path / "x.solfa", codec=solfa.load_codec(CODEC))
    assert not list(tmp_path.glob("x.solfa/commit/*"))


def test_a_place_outside_the_recording_is_a_damaged_plan(tmp_path: Path) -> None:
    write_tone(tmp_path / "audio/a.wav", 0.2, 8000)
    begun(tmp_path / "x.solfa", "a.wav", stop=2**40)
    with pytest.raises(StoreError, match="broken row"):
        solfa.encode(tmp_path / "audio", tmp_path / "x.solfa", codec=solfa.load_codec(CODEC))


def test_a_stranger_that_is_not_there_is_a_failed_clip(tmp_path: Path) -> None:
    write_tone(tmp_path / "audio/mine.wav", 0.2, 8000)
    begun(tmp_path / "x.solfa", str(tmp_path / "home/gone.wav"))
    report = solfa.encode(tmp_path / "audio", tmp_path / "x.solfa", codec=solfa.load_codec(CODEC))
    assert [failed.id for failed in report.failures] == ["a.wav"]


@pytest.mark.parametrize(
    "lie", [{"num_samples": 7}, {"start": 1600}, {"source_sample_rate": -8000}, {"source_sample_rate": 3}]
)
def test_a_row_that_contradicts_itself_is_a_damaged_plan(tmp_path: Path, lie: dict[str, int]) -> None:
    write_tone(tmp_path / "audio/a.wav", 0.2, 8000)
    begun(tmp_path / "x.solfa", "a.wav", **lie)
    with pytest.raises(StoreError, match="damaged"):
        solfa.encode(tmp_path / "audio", tmp_path / "x.solfa", codec=solfa.load_codec(CODEC))
    assert not list(tmp_path.glob("x.solfa/commit/*")) and not list(tmp_path.glob("x.solfa/.tmp/lease-*"))


def test_a_plan_without_rows_or_with_a_clip_twice_is_damaged(tmp_path: Path) -> None:
    write_tone(tmp_path / "audio/a.wav", 0.2, 8000)
    for times, told in ((0, "no rows"), (2, "planned twice")):
        begun(tmp_path / f"{times}.solfa", "a.wav", times=times)
        with pytest.raises(StoreError, match=f"{told}|damaged.*{told}"):
            solfa.encode(tmp_path / "audio", tmp_path / f"{times}.solfa", codec=solfa.load_codec(CODEC))
        assert not list(tmp_path.glob("*.solfa/commit/*")) and not list(tmp_path.glob("*.solfa/.tmp/lease-*"))


class Listed:
    """Recordings as a source would list them."""

    def __init__(self, root: Path, names: list[str]) -> None:
        self.root, self._names = root, names

    def recordings(self) -> Iterator[Recording]:
        for name in self._names:
            status = (self.root / name).stat()
            yield Recording(name, name, status.st_size, status.st_mtime_ns)


def extended(tmp_path: Path, dest: Path, names: list[str], **options: int) -> tuple[PlanningReport, list[str]]:
    spec = dataset_info(solfa.load_codec(CODEC), EncodeSettings()).array
    report = extend_plan(dest, Listed(tmp_path, names), spec, 30.0, **options)
    return report, [key for columns in iterate_plan_columns(dest, ["key"]) for key in columns["key"]]


@pytest.mark.parametrize("told", ["by the digests", "by the plan, for everything", "by the plan, two at once"])
def test_new_and_changed_recordings_are_found_in_any_order_of_the_source(tmp_path, monkeypatch, told):
    names = [write_tone(tmp_path / f"{number}.wav", 0.1, 8000).name for number in range(10)]
    dest = tmp_path / "x.solfa"
    assert extended(tmp_path, dest, names[:7])[1] == sorted(names[:7])
    for name in ("5.wav", "1.wav", "3.wav"):
        os.utime(tmp_path / name, ns=(1, 1))
    if told == "by the plan, for everything":  # as if every hash were that of another recording, too
        monkeypatch.setattr(PlannedRecordings, "find", lambda *arguments: Known.UNSURE)
    if told == "by the plan, two at once":
        monkeypatch.setattr(frozen_plan, "UNSURE_AT_ONCE", 2)
    listed = [names[place] for place in (8, 5, 0, 9, 3, 6, 1, 2, 4)]
    report, keys = extended(tmp_path, dest, listed)
    assert report.changed == ["5.wav", "3.wav", "1.wav"] and (report.recordings, report.new_clips) == (9, 2)
    assert keys == [*sorted(names[:7]), "8.wav", "9.wav"]
    assert extended(tmp_path, dest, listed)[0].new_clips == 0


class Described:
    """Recordings of which only a description is there; to open one is a failed clip."""

    def __init__(self, root: Path, rows: list[tuple[str, Version]]) -> None:
        self.root, self._rows = root, rows

    def recordings(self) -> Iterator[Recording]:
        return (Recording(key, f"{key}.wav", *version) for key, version in self._rows)


@settings(max_examples=40, deadline=None)
@given(random=st.randoms(use_true_random=False), num_rows=st.integers(0, 40), rows_per_block=st.integers(1, 15))
def test_any_listing_of_any_plan_is_extended_as_the_definition_says(
    random: Random, num_rows: int, rows_per_block: int
) -> None:
    """One recording after the other: new ones are planned, and of those that were planned the newest version counts."""
    planned: list[tuple[str, Version]] = [(f"{number:02d}", (1 + number, 5)) for number in range(num_rows)]
    listed = [row for row in planned for _ in range(random.choice([0, 1, 1, 1, 1, 1, 2]))]
    listed = [(key, (size, random.choice([5] * 9 + [6]))) for key, (size, _) in listed]
    for number in range(random.randrange(5)):
        listed.insert(random.choice([len(listed), random.randrange(len(listed) + 1)]), (f"new {number}", (1, 1)))
    if random.random() < 0.3:
        random.shuffle(listed)
    again = random.sample(planned, random.randrange(3)) if num_rows > 3 else []
    planned += [(key, random.choice([(size, time), (99, 99), (0, 0)])) for key, (size, time) in again]
    newest = dict(planned)
    read = partial(PlannedRecordings.read, rows_per_block=rows_per_block)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patches:
        root = Path(folder)
        rows = [PlannedClip(key, key, f"{key}.wav", *version, error="gone").as_row() for key, version in planned]
        cuts = [0, *sorted(random.sample(range(1, num_rows), 2)), len(rows)] if num_rows > 3 else [0, len(rows)]
        for part, (start, stop) in enumerate(pairwise(cuts if rows else [])):
            write_plan_part(root, part, iter([pa.Table.from_pylist(rows[start:stop], schema=PLAN_SCHEMA)]))
        patches.setattr(PlannedRecordings, "read", read)
        spec = dataset_info(solfa.load_codec(CODEC), EncodeSettings()).array
        report = extend_plan(root, Described(root, listed), spec, 30.0)
        keys = [key for columns in iterate_plan_columns(root, ["key"]) for key in columns["key"]]
    assert report.recordings == len(listed)
    assert report.changed == [key for key, now in listed if key in newest and newest[key] not in (now, (0, 0))]
    assert keys[: len(rows)] == [key for key, _ in planned]
    assert keys[len(rows) :] == sorted(key for key, _ in listed if key not in newest)


def test_what_changed_is_reported_also_where_a_limit_ends_the_listing(tmp_path):
    names = [write_tone(tmp_path / f"{number}.wav", 0.1, 8000).name for number in range(6)]
    extended(tmp_path, tmp_path / "x.solfa", names[:3])
    os.utime(tmp_path / "1.wav", ns=(1, 1))
    report, keys = extended(tmp_path, tmp_path / "x.solfa", names, limit=4)
    assert report.changed == ["1.wav"] and keys == names[:4]
