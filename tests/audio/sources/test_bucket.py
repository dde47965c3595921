"""Audio in a real object store: the recordings of a folder with the same files, read without downloading them whole."""

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from solfa import encode, load_codec
from solfa.audio import AudioSource, open_source, probe_recording, read_span
from solfa.audio.sources.location import locate_recording
from solfa.encoding.clip_plan import clips_of
from solfa.encoding.read_ahead import Target, decode_clip
from solfa.errors import ConfigError, StoreError
from solfa.files import BucketStore, LocalStore, store_at
from tests.conftest import write_tone


def upload(folder: Path, url: str) -> str:
    store = store_at(url)
    for entry in LocalStore(folder).list():
        store.replace(entry.key, (folder / entry.key).read_bytes())
    return url


def described(source: AudioSource) -> list[object]:
    """Say everything about the recordings of a source but when they were changed."""
    return [replace(recording, mtime_ns=0) for recording in source.recordings()]


@pytest.fixture
def remote_audio(bucket: str, pristine_audio: Path) -> str:
    return upload(pristine_audio, f"{bucket}/audio")


def test_recordings_are_those_of_a_folder_with_the_same_files(bucket: str, audio_folder: Path) -> None:
    for name in ("a/1.wav", "a b/1.wav", "a-b/1.wav", "a.wav", "ü%.wav", ".hidden/x.wav", "notes.md"):
        (audio_folder / name).parent.mkdir(exist_ok=True)
        (audio_folder / name).write_bytes(b"RIFF")
    (audio_folder / "voice/b.json").write_text("{broken")
    url = upload(audio_folder, f"{bucket}/audio")
    assert described(open_source(url)) == described(open_source(audio_folder))
    assert described(open_source(f"{url}/voice/a.wav")) == described(open_source(audio_folder / "voice/a.wav"))


def test_listing_tells_how_far_it_is(remote_audio: str) -> None:
    told: list[int] = []
    assert len(list(open_source(remote_audio, on_listed=told.append).recordings())) == 9
    assert told == [11]  # with what is next to the audio; a page has a thousand


def test_spans_are_those_of_the_files(remote_audio: str, pristine_audio: Path) -> None:
    here, there = open_source(pristine_audio), open_source(remote_audio)
    for mine, theirs in zip(here.recordings(), there.recordings(), strict=True):
        info = probe_recording(here.root, mine)
        assert not isinstance(info, str) and probe_recording(there.root, theirs) == info
        span = (info.num_samples // 3, info.num_samples // 2, 16_000, 1)
        np.testing.assert_array_equal(
            read_span(locate_recording(here.root, mine), info, *span),
            read_span(locate_recording(there.root, theirs), info, *span),
        )


@pytest.mark.parametrize("extension", ["wav", "flac"])
def test_a_segment_is_read_without_the_rest(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str
) -> None:
    write_tone(tmp_path / f"audio/long.{extension}", 200.0, 16_000)
    source = open_source(upload(tmp_path / "audio", f"{bucket}/audio"))
    (recording,) = source.recordings()
    info = probe_recording(source.root, recording)
    assert not isinstance(info, str)
    asked: list[int] = []
    read_ranges = BucketStore.read_ranges

    def counted(self, key, ranges):
        asked.extend(stop - start for start, stop in ranges)
        return read_ranges(self, key, ranges)

    monkeypatch.setattr(BucketStore, "read_ranges", counted)
    read_span(locate_recording(source.root, recording), info, 2_000_000, 2_080_000, 16_000, 1)
    assert 0 < sum(asked) < recording.size_bytes / 5


def test_a_tar_is_read_in_place(bucket: str, pristine_audio: Path, tmp_path: Path) -> None:
    (tmp_path / "tars").mkdir()
    for number in range(2):
        with tarfile.open(tmp_path / f"tars/{number:02d}.tar", "w") as tar:
            for path in sorted(pristine_audio.rglob("*.*"))[number::2]:
                tar.add(path, path.name)
    url = upload(tmp_path / "tars", f"{bucket}/tars")
    here = described(open_source(tmp_path / "tars"))
    assert here == described(open_source(url)) == described(open_source(f"{url}/{{00..01}}.tar"))
    source = open_source(url)
    assert {probe_recording(source.root, recording) for recording in source.recordings()} == {
        probe_recording(tmp_path / "tars", recording) for recording in open_source(tmp_path / "tars").recordings()
    }
    with pytest.raises(ConfigError, match="no such file"):
        open_source(f"{url}/07.tar")


def test_a_dataset_config_of_stable_audio_tools_names_buckets(remote_audio: str, tmp_path: Path) -> None:
    config = {"dataset_type": "s3", "datasets": [{"id": "mine", "s3_path": f"{remote_audio}/"}]}
    (tmp_path / "dataset.json").write_text(json.dumps(config))
    source = open_source(tmp_path / "dataset.json")
    recordings = list(source.recordings())
    assert recordings[0].key == "mine/drums/hit0.wav" and recordings[0].uri == f"{remote_audio}/drums/hit0.wav"
    assert all(not isinstance(probe_recording(source.root, recording), str) for recording in recordings)


def test_what_is_encoded_from_a_bucket_is_what_is_encoded_from_a_folder(
    remote_audio: str, pristine_audio: Path, tmp_path: Path
) -> None:
    codec = load_codec("mulaw:sample_rate=4000")
    for source, dest in ((pristine_audio, "here"), (remote_audio, "there")):
        encode(source, tmp_path / dest, codec=codec, segment_seconds=1.0)
    here, there = ([*LocalStore(tmp_path / dest).list("data")] for dest in ("here", "there"))
    assert [entry.key for entry in here] == [entry.key for entry in there] and here
    assert encode(remote_audio, tmp_path / "there", codec=codec).new_clips == 0


def test_an_object_that_changed_or_vanished_is_a_failed_clip(remote_audio: str) -> None:
    source, store = open_source(remote_audio), store_at(remote_audio)
    recording = next(iter(source.recordings()))
    (clip,) = clips_of(recording, probe_recording(source.root, recording), 0, 16_000)
    target = Target(source.root, 16_000, 1)
    assert isinstance(decode_clip(clip, target), np.ndarray)
    store.replace("drums/hit0.wav", store.read("drums/hit1.wav"))
    assert "changed since it was planned" in str(decode_clip(clip, target))
    store.delete(["drums/hit0.wav"])
    assert "disappeared" in str(decode_clip(clip, target))


def test_a_store_that_is_away_ends_the_run_and_fails_no_clip(
    remote_audio: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source(remote_audio)
    recording = next(iter(source.recordings()))
    info = probe_recording(source.root, recording)
    assert not isinstance(info, str)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "expired")
    location = locate_recording(BucketStore(remote_audio), recording)
    with pytest.raises(StoreError, match="refuses"):
        probe_recording(BucketStore(remote_audio), recording)
    location.path.__dict__["entry"] = source.root.head("drums/hit0.wav")  # it expires after the first look
    with pytest.raises(StoreError, match="refuses"):
        read_span(location, info, 0, 100, 16_000, 1)


def test_other_things_of_a_bucket_are_refused(bucket: str) -> None:
    store_at(bucket).replace("table.csv", b"path\na.wav\n")
    with pytest.raises(ConfigError, match="copy tables"):
        open_source(f"{bucket}/table.csv")
    store_at(bucket).replace("empty.wav", b"")
    (recording,) = open_source(f"{bucket}/empty.wav").recordings()
    assert probe_recording(store_at(bucket), recording) == "has 0 bytes"
    assert probe_recording(store_at(bucket), replace(recording, uri="gone.wav")) == "no such file"
