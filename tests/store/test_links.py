"""A dataset that came from somebody else cannot make us write to, or remove from, folders that it links to."""

from pathlib import Path

import pytest

import solfa
from solfa.errors import StoreError
from solfa.store.gc import collect_garbage
from tests.conftest import write_tone

CODEC = "mulaw:bits=8,sample_rate=8000"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    write_tone(tmp_path / "audio/a.wav", 0.2, 8000)
    solfa.encode(tmp_path / "audio", tmp_path / "x.solfa", codec=solfa.load_codec(CODEC))
    return tmp_path / "x.solfa"


def linked(dataset: Path, name: str) -> Path:
    """Put a link to a folder with somebody's files in the place of one of the dataset's folders."""
    theirs = dataset.parent / "theirs"
    theirs.mkdir()
    for file in ("thesis.txt", "00007-0123456789abcdef.arrow", "00007-0123456789abcdef.parquet", "00007.json"):
        (theirs / file).write_text("mine")
    if (dataset / name).exists():
        (dataset / name).rename(dataset.parent / "aside")
    (dataset / name).symlink_to(theirs)
    return theirs


@pytest.mark.parametrize("name", [".tmp", "data", "meta"])
def test_garbage_is_not_collected_through_a_link(dataset: Path, name: str) -> None:
    theirs = linked(dataset, name)
    with pytest.raises(StoreError, match="is a link"):
        collect_garbage(dataset)
    assert sorted(path.name for path in theirs.iterdir()) == sorted(
        ["thesis.txt", "00007-0123456789abcdef.arrow", "00007-0123456789abcdef.parquet", "00007.json"]
    )


@pytest.mark.parametrize("name", [".tmp", "data", "meta", "commit", "plan", "manifest"])
def test_nothing_is_written_through_a_link_nor_encoded_in_vain(dataset: Path, name: str) -> None:
    write_tone(dataset.parent / "audio/b.wav", 0.3, 8000)
    theirs = linked(dataset, name)
    before = {path.name: path.read_bytes() for path in theirs.iterdir()}
    with pytest.raises(StoreError):
        solfa.encode(dataset.parent / "audio", dataset, codec=solfa.load_codec(CODEC))
    assert {path.name: path.read_bytes() for path in theirs.iterdir()} == before
    assert not (dataset / "plan/00001.parquet").exists() and not (dataset / "commit/00001.json").exists()


def test_the_dataset_itself_may_be_a_link(dataset: Path) -> None:
    alias = dataset.parent / "alias.solfa"
    alias.symlink_to(dataset)
    write_tone(dataset.parent / "audio/b.wav", 0.3, 8000)
    assert solfa.encode(dataset.parent / "audio", alias, codec=solfa.load_codec(CODEC)).clips == 2
    assert collect_garbage(alias) == []
