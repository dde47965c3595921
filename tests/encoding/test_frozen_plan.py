"""A plan that somebody else began cannot have us read files which our source does not name."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import solfa
from solfa.encoding.fingerprint import EncodeSettings, dataset_info
from solfa.errors import StoreError
from solfa.store.layout import create_info
from solfa.store.plan_file import PLAN_SCHEMA, write_plan_part
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
