"""Decoded files are named after their clips, each has a file of its own, and none lies outside its folder."""

import json
import unicodedata
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import soundfile

import solfa
from solfa.encoding.decoded_clips import decode_dataset, file_names, originals
from solfa.errors import StoreError
from tests.conftest import write_tone


@pytest.mark.parametrize(
    ("clip_id", "name"),
    [
        ("a/b.wav", "a/b.wav"),
        ("a/b.flac", "a/b.flac.wav"),
        ("a/b.wav@00030.000", "a/b.wav@00030.000.wav"),
        ("../../etc/passwd", "%2E./%2E./etc/passwd.wav"),
        ("..", "%2E..wav"),
        (".", "%2E.wav"),
    ],
)
def test_a_clip_is_written_below_the_output_folder(clip_id: str, name: str) -> None:
    assert file_names([clip_id], ".wav") == {clip_id: PurePosixPath(name)}


def test_every_clip_has_a_file_of_its_own() -> None:
    ids = ["x", "x.wav", "x.flac", "x.flac.wav", ".", "..", "/x", "n" * 300, "n" * 300 + "m", "y.wav"]
    names = file_names(ids, ".wav")
    assert len(set(names.values())) == len(ids)
    assert names["y.wav"] == PurePosixPath("y.wav") and names["x.flac.wav"] == PurePosixPath("x.flac.wav.wav")
    assert all(len(part.encode()) < 255 and part not in (".", "..") for name in names.values() for part in name.parts)


def test_names_are_different_on_file_systems_that_ignore_case_and_accents_spelled_in_two_ways() -> None:
    ids = ["x.flac", "X.flac", "X.FLAC.wav", "a/b", "A/b.WAV", "caf\u00e9", "cafe\u0301", "x.flac.wav.wav"]
    names = file_names(ids, ".wav")
    assert len({unicodedata.normalize("NFC", str(name)).casefold() for name in names.values()}) == len(ids)
    assert names == file_names(reversed(ids), ".wav")


def test_two_clips_with_one_id_are_not_decoded_to_one_file(tmp_path: Path) -> None:
    write_tone(tmp_path / "audio/a.wav", 0.5, 8000)
    codec = solfa.load_codec("mulaw:bits=8,sample_rate=8000")
    solfa.encode(tmp_path / "audio", tmp_path / "x.solfa", codec=codec)
    twins = solfa.open_dataset(tmp_path / "x.solfa").select([0, 0])
    with pytest.raises(StoreError, match=r"2 clips .*'a\.wav'"):
        decode_dataset(twins, codec, tmp_path / "out")


def test_no_file_lies_in_the_place_of_a_folder() -> None:
    names = file_names(["x", "x.wav/y", "x.wav.wav", "x.wav.wav.wav/z", "x.wav/y.wav/w"], ".wav")
    folders = {folder for name in names.values() for folder in name.parents}
    assert len(set(names.values()) | folders) == len(names) + len(folders)


def test_clips_of_a_recording_are_joined_to_what_the_codec_makes_of_each(tmp_path: Path) -> None:
    write_tone(tmp_path / "audio/long.wav", 2.5, 8000, hz=200.0)
    write_tone(tmp_path / "audio/short.wav", 0.5, 8000, hz=300.0)
    codec = solfa.load_codec("mulaw:bits=8,sample_rate=8000")
    solfa.encode(tmp_path / "audio", tmp_path / "x.solfa", codec=codec, segment_seconds=1.0)
    dataset = solfa.open_dataset(tmp_path / "x.solfa")
    report = decode_dataset(dataset, codec, tmp_path / "out", whole=True)
    assert report.clips == 2 and sorted(path.name for path in (tmp_path / "out").iterdir()) == ["long.wav", "short.wav"]
    joined, _ = soundfile.read(tmp_path / "out/long.wav")
    clips = sorted((clip.source["start"], clip.id) for clip in dataset if clip.source["key"] == "long.wav")
    parts = [codec.decode(dataset[clip_id]).numpy()[0] for _, clip_id in clips]
    np.testing.assert_allclose(joined, np.concatenate(parts), atol=1e-7)
    with pytest.raises(StoreError, match="cannot be joined"):
        rows = [row for row, clip in enumerate(dataset) if clip.source["start"] != 8000]
        decode_dataset(dataset.select(rows), codec, tmp_path / "other", whole=True)


def test_a_damaged_clip_is_not_passed_on(tmp_path: Path) -> None:
    write_tone(tmp_path / "audio/a.wav", 0.5, 8000)
    codec = solfa.load_codec("mulaw:bits=8,sample_rate=8000")
    solfa.encode(tmp_path / "audio", tmp_path / "x.solfa", codec=codec)
    (data,) = (tmp_path / "x.solfa/data").iterdir()
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    with pytest.raises(StoreError, match=r"'a\.wav' .*damaged"):
        decode_dataset(solfa.open_dataset(tmp_path / "x.solfa"), codec, tmp_path / "out")
    assert not list(tmp_path.glob("out/*"))


def test_nothing_is_decoded_through_a_link_in_the_output_folder(tmp_path: Path) -> None:
    write_tone(tmp_path / "audio/deep/down/a.wav", 0.2, 8000)
    codec = solfa.load_codec("mulaw:bits=8,sample_rate=8000")
    solfa.encode(tmp_path / "audio", tmp_path / "x.solfa", codec=codec)
    (tmp_path / "theirs/down").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/deep").symlink_to(tmp_path / "theirs")
    with pytest.raises(StoreError, match="is a link"):
        decode_dataset(solfa.open_dataset(tmp_path / "x.solfa"), codec, tmp_path / "out")
    assert not list((tmp_path / "theirs/down").iterdir())


def test_originals_outside_the_given_source_are_not_shown(tmp_path: Path) -> None:
    write_tone(tmp_path / "home/secret.wav", 0.2, 8000)
    write_tone(tmp_path / "audio/a.wav", 0.2, 8000)
    entries = [{"id": name, "path": str(tmp_path / name)} for name in ("home", "audio")]
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists/data.json").write_text(json.dumps({"dataset_type": "audio_dir", "datasets": entries}))
    codec = solfa.load_codec("mulaw:bits=8,sample_rate=8000")
    solfa.encode(tmp_path / "lists/data.json", tmp_path / "x.solfa", codec=codec)
    read = originals(tmp_path / "audio", codec)
    shown = {Path(clip.source["uri"]).name: read(clip) is not None for clip in solfa.open_dataset(tmp_path / "x.solfa")}
    assert shown == {"secret.wav": False, "a.wav": True}
