"""Folders, single files, and what lies beside the audio."""

import os
import shutil
from pathlib import PurePosixPath

import pytest
from hostile import encoded, tone

from solfa.audio.file_types import extension
from solfa.audio.probe import probe
from solfa.audio.sources.choice import open_source
from solfa.audio.sources.folder_walk import walk
from solfa.audio.sources.location import locate_recording
from solfa.errors import ConfigError

WAV = encoded(tone(100))


def write(folder, *names, content=WAV):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def keys(source):
    return [recording.key for recording in source.recordings()]


def test_folder_is_listed_recursively_in_sorted_order_without_hidden_names(tmp_path):
    write(tmp_path, "b.wav", "a/z.MP3", "a/b/c.flac", "a.opus", "notes.md", ".x.wav", "._b.wav", ".git/d.wav", "e.m4a")
    assert keys(open_source(tmp_path)) == ["a.opus", "a/b/c.flac", "a/z.MP3", "b.wav", "e.m4a"]


def test_order_does_not_depend_on_the_order_of_creation(tmp_path):
    names = [f"{name}.wav" for name in ("q", "b/x", "b", "ä", "%", "b-", "B")]
    write(tmp_path / "one", *names)
    write(tmp_path / "two", *reversed(names))
    assert keys(open_source(tmp_path / "one")) == keys(open_source(tmp_path / "two"))
    assert len(keys(open_source(tmp_path / "one"))) == len(names)


def test_recordings_can_be_opened_again_from_what_is_kept_of_them(tmp_path):
    for name in (b"plain.wav", b"100%\n\xff.wav", b"folder.wav/x.wav"):
        write(tmp_path, os.fsdecode(name))
    source = open_source(str(tmp_path))
    found = list(source.recordings())
    assert len(found) == 3
    for recording in found:
        location = locate_recording(source.root, recording)
        assert location.format_hint == ".wav"
        assert probe(location).num_samples == 100
        assert (recording.size_bytes, recording.mtime_ns) == (len(WAV), location.path.stat().st_mtime_ns)


def test_linked_folders_are_followed_and_loops_end(tmp_path):
    write(tmp_path / "outside", "far.wav")
    write(tmp_path / "root", "here/near.wav")
    (tmp_path / "root/link").symlink_to("../outside")
    (tmp_path / "root/here/back").symlink_to("..")
    (tmp_path / "outside/again").symlink_to("../root")
    assert keys(open_source(tmp_path / "root")) == ["here/near.wav", "link/far.wav"]


def test_what_cannot_be_read_becomes_a_recording_with_a_reason(tmp_path):
    write(tmp_path, "ok.wav")
    (tmp_path / "dangling.wav").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo.flac")
    errors = {recording.key: recording.error for recording in open_source(tmp_path).recordings()}
    assert sorted(errors) == ["dangling.wav", "fifo.flac", "ok.wav"] and errors["ok.wav"] is None
    assert "link" in str(errors["dangling.wav"]) and "FIFO" in str(errors["fifo.flac"])


def test_captions_and_metadata_beside_the_audio_are_read(tmp_path):
    write(tmp_path, "both.wav", "text.wav", "json.wav", "none.wav")
    write(tmp_path, "both.txt", content="\ufeff a caption \n".encode())
    write(tmp_path, "both.json", content=b'{"bpm": 120, "prompt": "other"}')
    write(tmp_path, "text.txt", content=b"only text")
    write(tmp_path, "json.json", content=b'{"description": "D", "text": "T", "loudness": NaN}')
    found = {recording.key: recording for recording in open_source(tmp_path).recordings()}
    assert found["both.wav"].caption == "a caption"
    assert found["both.wav"].metadata == {"bpm": 120, "prompt": "other", "caption": "a caption"}
    assert found["text.wav"].caption == "only text"
    assert found["json.wav"].caption == "T"
    assert found["json.wav"].metadata == {"description": "D", "text": "T", "loudness": None}
    assert found["none.wav"].caption is None and found["none.wav"].metadata == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{broken", ".json: not a JSON object (Expecting property name"),
        (b"[1, 2]", ".json: not a JSON object (expected an object, found list"),
        (b'{"a": "\xff"}', ".json: not a JSON object (is not UTF-8"),
        (b"[" * 100_000, ".json: not a JSON object (is nested too deeply"),
    ],
)
def test_broken_sidecar_is_reported_and_the_audio_kept(tmp_path, content, reason):
    write(tmp_path, "x.wav")
    write(tmp_path, "x.json", content=content)
    write(tmp_path, "x.txt", content=b"still here")
    (recording,) = open_source(tmp_path).recordings()
    assert recording.error is None and recording.caption == "still here"
    assert recording.metadata["sidecar_error"].startswith(reason)


def test_what_lies_beside_is_found_in_any_spelling_that_the_file_system_takes_for_the_same(tmp_path):
    write(tmp_path, "a.b.wav", "Ä.wav", "upper.wav", "alone.wav")
    write(tmp_path, "a.b.txt", "Ä.txt", "UPPER.TXT", content=b"hello")
    may_have = {found.name: found.has_sidecars for found in walk(tmp_path)}
    assert may_have == {"a.b.wav": True, "Ä.wav": True, "upper.wav": True, "alone.wav": False}
    captions = {recording.key: recording.caption for recording in open_source(tmp_path).recordings()}
    upper = "hello" if (tmp_path / "upper.txt").exists() else None  # on a file system that ignores case
    assert captions == {"a.b.wav": "hello", "Ä.wav": "hello", "upper.wav": upper, "alone.wav": None}


@pytest.mark.parametrize("name", ["a.wav", "a.b.FLAC", "a", ".wav", "d.x/a", "d/a.Mp3", "a b.ogg"])
def test_the_extension_of_a_name_is_what_pathlib_says(name):
    assert extension(name) == PurePosixPath(name).suffix.lower()


def test_sidecar_that_is_a_fifo_does_not_block(tmp_path):
    write(tmp_path, "x.wav")
    os.mkfifo(tmp_path / "x.txt")
    (recording,) = open_source(tmp_path).recordings()
    assert recording.metadata["sidecar_error"].startswith(".txt: is a FIFO")


def test_one_file_is_a_source(tmp_path):
    write(tmp_path, "x y.wav")
    write(tmp_path, "x y.txt", content=b"hello")
    source = open_source(tmp_path / "x y.wav")
    (recording,) = source.recordings()
    assert (recording.key, recording.uri, recording.caption) == ("x y.wav", "x y.wav", "hello")
    assert probe(locate_recording(source.root, recording)).num_samples == 100


def test_folder_that_cannot_be_listed_is_named(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may list every folder")
    write(tmp_path, "locked/x.wav", "y.wav")
    (tmp_path / "locked").chmod(0)
    try:
        found = {recording.key: recording.error for recording in open_source(tmp_path).recordings()}
    finally:
        (tmp_path / "locked").chmod(0o700)
    assert found["y.wav"] is None and "cannot be listed" in str(found["locked"])


def test_moved_folder_keeps_its_keys(tmp_path):
    write(tmp_path / "one", "a/x.wav")
    before = list(open_source(tmp_path / "one").recordings())
    shutil.move(tmp_path / "one", tmp_path / "two")
    assert list(open_source(tmp_path / "two").recordings()) == before


def test_what_is_no_source_gets_a_sentence(tmp_path):
    write(tmp_path, "x.pdf", "x.tar.gz", content=b"\x1f\x8b\x08")
    with pytest.raises(ConfigError, match="no such file"):
        open_source(tmp_path / "missing")
    with pytest.raises(ConfigError, match=r"x\.pdf: expected a folder"):
        open_source(tmp_path / "x.pdf")
    with pytest.raises(ConfigError, match=r"x\.tar\.gz: is compressed"):
        open_source(tmp_path / "x.tar.gz")
    with pytest.raises(ConfigError, match="`audio_root`: expected a folder"):
        open_source(tmp_path, audio_root=tmp_path / "missing")
