"""A plan that somebody else began cannot have us read files which our source does not name."""

import csv
from pathlib import Path

import pytest

import solfa
from solfa.audio.sources.choice import open_source
from solfa.encoding.fingerprint import EncodeSettings, dataset_info
from solfa.encoding.frozen_plan import extend_plan
from solfa.errors import StoreError
from solfa.store.layout import create_info
from tests.conftest import write_tone

CODEC = "mulaw:bits=8,sample_rate=8000"


def begun(source: Path, dest: Path) -> None:
    """Plan a dataset and encode nothing of it, as a killed run leaves it."""
    info = create_info(dest, dataset_info(solfa.load_codec(CODEC), EncodeSettings()))
    extend_plan(dest, open_source(source), info.array, 30.0)


def write_table(path: Path, *files: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["path"], *[[str(one)] for one in files]])
    return path


def test_a_foreign_plan_reads_nothing_outside_the_source(tmp_path: Path) -> None:
    secret = write_tone(tmp_path / "home/secret.wav", 0.2, 8000)
    write_tone(tmp_path / "audio/mine.wav", 0.2, 8000)
    begun(write_table(tmp_path / "theirs/table.csv", secret), tmp_path / "x.solfa")
    with pytest.raises(StoreError, match=r"secret\.wav"):
        solfa.encode(tmp_path / "audio", tmp_path / "x.solfa", codec=solfa.load_codec(CODEC))
    assert not list(tmp_path.glob("x.solfa/commit/*"))


def test_a_table_that_names_files_elsewhere_is_continued(tmp_path: Path) -> None:
    far = write_tone(tmp_path / "home/far.wav", 0.2, 8000)
    table = write_table(tmp_path / "here/table.csv", far)
    begun(table, tmp_path / "x.solfa")
    assert solfa.encode(table, tmp_path / "x.solfa", codec=solfa.load_codec(CODEC)).clips == 1
