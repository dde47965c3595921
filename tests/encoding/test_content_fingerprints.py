"""Fingerprints that are added later are those that encoding makes, whenever it is interrupted."""

import shutil
from pathlib import Path

import pytest

import solfa
from solfa.encoding.content_fingerprints import add_fingerprints
from solfa.errors import ConfigError
from solfa.store.landmark_file import landmark_key
from tests.data.copies_maker import encode_collection, write_collection
from tests.trees import tree_digest


def test_added_later_they_are_the_same_bytes_and_resume(tmp_path: Path) -> None:
    audio = write_collection(tmp_path / "audio")
    made = encode_collection(audio)
    expected = tree_digest(made)
    assert (made / "landmarks").is_dir()
    shutil.rmtree(made)
    encode_collection(audio, fingerprints=False)
    assert not (made / "landmarks").exists()
    first = add_fingerprints(made, audio)
    assert (first.new_clips, first.new_shards, first.unheard) == (8, 1, [])
    assert tree_digest(made) == expected
    assert add_fingerprints(made, audio).new_shards == 0
    (made / landmark_key(0)).unlink()
    assert add_fingerprints(made, audio, num_workers=0).new_clips == 8
    assert tree_digest(made) == expected


def test_what_cannot_be_heard_is_listed_and_the_wrong_audio_refused(tmp_path: Path) -> None:
    audio = write_collection(tmp_path / "audio")
    made = encode_collection(audio, fingerprints=False)
    elsewhere = write_collection(tmp_path / "other" / "audio")
    with pytest.raises(ConfigError, match="source"):
        add_fingerprints(made, elsewhere)
    assert not (made / "landmarks").exists()
    (audio / "take0.wav").unlink()
    report = add_fingerprints(made, audio)
    assert [clip.id for clip in report.unheard] == ["take0.wav"]
    assert solfa.open_dataset(made).landmarks().is_known.sum() == 7
