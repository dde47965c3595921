"""Encoding end to end, in this process: what is stored, what a second run does, and what is refused."""

import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import soundfile
import torch

import solfa
from solfa.encoding.api import codec_of
from solfa.encoding.decoded_clips import originals
from solfa.encoding.fingerprint import EncodeSettings, dataset_info
from solfa.encoding.progress import Silence
from solfa.errors import ConfigError, SolfaError, StoreError
from solfa.store.layout import create_info
from solfa.store.lease import live_leases
from solfa.store.plan_file import PLAN_SCHEMA, write_plan_part
from solfa.store.planned_clip import PlannedClip
from solfa.store.verification import verify
from tests.audio.hostile import liars
from tests.conftest import write_tone


def encode(source, dest, codec="mulaw", **options):
    return solfa.encode(source, dest, codec=solfa.load_codec(codec), **options)


def test_every_recording_is_stored_with_its_metadata_and_decodes_to_its_audio(audio_folder, tmp_path):
    report = encode(audio_folder, tmp_path / "d.solfa", "mulaw:bits=16,sample_rate=16000")
    dataset = solfa.open_dataset(tmp_path / "d.solfa")
    assert (report.clips, report.failed, len(dataset)) == (9, 0, 9)
    assert dataset["voice/a.wav"].caption == "somebody says a"
    assert dataset["voice/b.ogg"].metadata["speaker"] == 7
    codec = solfa.load_codec("mulaw:bits=16,sample_rate=16000")
    read = originals(audio_folder, codec)
    for clip in dataset:
        assert np.abs(codec.decode(clip).numpy() - read(clip)).max() < 2e-3


def test_segments_together_are_the_recording(audio_folder, tmp_path):
    codec = "mulaw:bits=16,sample_rate=22050,num_channels=2"
    encode(audio_folder, tmp_path / "cut.solfa", codec, segment_seconds=2.0)
    encode(audio_folder, tmp_path / "whole.solfa", codec, segment_seconds=0)
    cut, whole = (solfa.open_dataset(tmp_path / name) for name in ("cut.solfa", "whole.solfa"))
    ids = sorted(clip_id for clip_id in cut.ids() if clip_id.startswith("long.flac@"))
    assert ids == [f"long.flac@{start:09.3f}" for start in (0, 2, 4, 6)]
    assert np.array_equal(np.concatenate([cut[clip_id].array for clip_id in ids]), whole["long.flac"].array)


def test_to_find_that_nothing_is_to_be_done_takes_neither_torch_nor_pandas(audio_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("solfa.codecs.codec_memory._SETTLED_SECONDS", 0.0)
    dest = tmp_path / "d.solfa"
    encode(audio_folder, dest)
    assert solfa.encode(audio_folder, dest).new_clips == 0  # by its name, which is remembered
    code = (
        "import sys, solfa\n"
        f"assert solfa.encode({str(audio_folder)!r}, {str(dest)!r}, device='cpu').new_clips == 0\n"
        "print(sorted({'torch', 'pandas', 'transformers'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_what_is_remembered_of_a_codec_does_not_hide_that_a_dataset_has_another(audio_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("solfa.codecs.codec_memory._SETTLED_SECONDS", 0.0)
    encode(audio_folder, tmp_path / "8.solfa")
    encode(audio_folder, tmp_path / "9.solfa", "mulaw:bits=9")
    for _ in range(2):  # loaded, then remembered
        assert solfa.encode(audio_folder, tmp_path / "8.solfa", codec="mulaw").new_clips == 0
        with pytest.raises(ConfigError, match="was made with different settings"):
            solfa.encode(audio_folder, tmp_path / "9.solfa", codec="mulaw")


def test_repeating_does_nothing_and_new_files_are_appended(audio_folder, tmp_path, digest):
    dest = tmp_path / "d.solfa"
    encode(audio_folder, dest)
    before = digest(dest)
    assert encode(audio_folder, dest).new_clips == 0
    assert digest(dest) == before
    shutil.copy(audio_folder / "voice/a.wav", audio_folder / "voice/c.wav")
    report = encode(audio_folder, dest)
    assert (report.new_clips, report.clips) == (1, 10)
    after = digest(dest)
    assert before.items() <= after.items()
    assert {"manifest/000002.json", "plan/00001.parquet"} <= after.keys()
    assert len(solfa.open_dataset(dest)) == 10
    assert len(solfa.open_dataset(dest, manifest=1)) == 9
    assert not verify(dest).problems


def test_a_changed_file_is_reported_and_not_mixed_in(audio_folder, tmp_path, digest):
    dest = tmp_path / "d.solfa"
    encode(audio_folder, dest)
    before = digest(dest)
    soundfile.write(audio_folder / "voice/a.wav", np.zeros(16000), 8000)
    report = encode(audio_folder, dest)
    assert report.changed == ["voice/a.wav"]
    assert digest(dest) == before


@pytest.mark.parametrize("segment_seconds", [1.0, 0])
def test_a_header_that_claims_billions_of_samples_is_one_failed_recording(tmp_path, segment_seconds):
    (tmp_path / "audio").mkdir()
    shutil.copy(write_tone(tmp_path / "good.wav", 0.5), tmp_path / "audio/good.wav")
    made = liars()
    for name, content in made.items():
        (tmp_path / "audio" / name).write_bytes(content)
    report = encode(tmp_path / "audio", tmp_path / "d.solfa", segment_seconds=segment_seconds)
    assert report.clips == 1
    assert sorted(failed.id for failed in report.failures) == sorted(made)
    assert all("header claims" in failed.error for failed in report.failures)
    assert not verify(tmp_path / "d.solfa").problems


def test_other_settings_are_refused_with_what_differs_and_change_nothing(audio_folder, tmp_path, digest):
    dest = tmp_path / "d.solfa"
    encode(audio_folder, dest)
    before = digest(dest)
    with pytest.raises(ConfigError, match=r"bits: 8\b.* 10\b.*segment_seconds: 30\.0\b.* 5\b"):
        encode(audio_folder, dest, "mulaw:bits=10", segment_seconds=5)
    assert digest(dest) == before


def test_settings_left_open_are_those_of_the_dataset(audio_folder, tmp_path):
    dest = tmp_path / "d.solfa"
    encode(audio_folder, dest, segment_seconds=3, batch_seconds=20)
    assert encode(audio_folder, dest).new_clips == 0


def test_a_codec_left_open_is_that_of_the_dataset_or_the_one_that_comes_with_solfa(audio_folder, tmp_path):
    dest = tmp_path / "d.solfa"
    assert codec_of(dest) == "solfa_24khz"
    encode(audio_folder, dest, "mulaw:bits=10")
    report = solfa.encode(audio_folder, dest)
    assert (report.new_clips, report.codec) == (0, solfa.load_codec("mulaw:bits=10").spec)


def test_batches_give_the_same_codes_as_single_clips(audio_folder, tmp_path):
    encode(audio_folder, tmp_path / "single.solfa")
    encode(audio_folder, tmp_path / "batched.solfa", batch_seconds=60)
    single, batched = (solfa.open_dataset(tmp_path / name) for name in ("single.solfa", "batched.solfa"))
    assert single.ids() == batched.ids()
    assert all(np.array_equal(a.array, b.array) for a, b in zip(single, batched, strict=True))


def test_limit_plans_whole_recordings_and_can_be_lifted(audio_folder, tmp_path):
    dest = tmp_path / "d.solfa"
    assert encode(audio_folder, dest, limit=4).clips == 4
    assert encode(audio_folder, dest, limit=4).new_clips == 0
    assert encode(audio_folder, dest).clips == 9
    encode(audio_folder, tmp_path / "once.solfa")
    assert sorted(solfa.open_dataset(dest).ids()) == sorted(solfa.open_dataset(tmp_path / "once.solfa").ids())


def test_broken_files_are_rows_with_reasons_and_too_many_stop_the_run(audio_folder, tmp_path):
    for name in ("bad1.wav", "bad2.wav"):
        (audio_folder / name).write_bytes(b"RIFF nothing")
    report = encode(audio_folder, tmp_path / "d.solfa")
    assert (report.clips, report.failed) == (9, 2)
    assert {failed.id for failed in report.failures} == {"bad1.wav", "bad2.wav"}
    with pytest.raises(SolfaError, match=r"`max_failed` .*\b0 of 11 recordings.*found 1\b"):
        encode(audio_folder, tmp_path / "strict.solfa", max_failed="1%")
    # The stopped run is only unfinished: with a wider limit the same call completes it.
    assert encode(audio_folder, tmp_path / "strict.solfa", max_failed=2).clips == 9


class Spoiling(Silence):
    """Overwrites a recording between planning and encoding."""

    def __init__(self, path):
        self.path = path

    def encoding(self, done, clips, seconds):
        if done.clips == 0:
            self.path.write_bytes(b"something else")


def test_a_long_recording_that_cannot_be_read_is_one_failure(audio_folder, tmp_path):
    options = {"segment_seconds": 0.5, "listener": Spoiling(audio_folder / "long.flac")}
    report = encode(audio_folder, tmp_path / "d.solfa", **options, max_failed=1)
    assert report.failed == 15
    (failed,) = report.failed_recordings
    assert (failed.key, failed.num_clips) == ("long.flac", 15) and "changed since" in failed.error


def test_what_was_resampled_or_mixed_down_or_could_not_be_read_beside_the_audio_is_counted_by_recording(
    audio_folder, tmp_path
):
    (audio_folder / "voice/b.json").write_text('{"caption": ')
    (audio_folder / "bad.wav").write_bytes(b"nothing")
    report = encode(audio_folder, tmp_path / "d.solfa", "mulaw:sample_rate=16000", segment_seconds=1.0)
    assert report.resampled == {8000: 1, 22050: 1, 44100: 1} and report.mixed_down == 1
    (fault,) = report.sidecar_faults
    assert fault.key == "voice/b.ogg" and "JSON" in fault.fault
    again = solfa.encode(audio_folder, tmp_path / "d.solfa")
    assert (again.resampled, again.sidecar_faults) == (report.resampled, report.sidecar_faults)


@pytest.mark.parametrize("empty", ["source", "dest"])
def test_an_empty_path_is_not_the_current_folder(audio_folder, tmp_path, monkeypatch, empty):
    monkeypatch.chdir(tmp_path)
    paths = {"source": str(audio_folder), "dest": "d.solfa", empty: ""}
    with pytest.raises(ConfigError, match=f"`{empty}`: .*nothing.*unset"):
        encode(paths["source"], paths["dest"])
    assert [path.name for path in tmp_path.iterdir()] == ["audio"]


@pytest.mark.parametrize("make", ["file", "folder"])
def test_a_destination_that_holds_something_else_is_refused_and_kept(audio_folder, tmp_path, make):
    dest = tmp_path / "dest"
    if make == "file":
        dest.write_text("precious")
    else:
        dest.mkdir()
        (dest / "notes.txt").write_text("precious")
    with pytest.raises(ConfigError, match="empty folder"):
        encode(audio_folder, dest)
    assert (dest if make == "file" else dest / "notes.txt").read_text() == "precious"


def test_an_empty_source_is_refused_before_anything_is_made(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="expected audio files, found none"):
        encode(tmp_path / "empty", tmp_path / "d.solfa")
    assert not (tmp_path / "d.solfa").exists()


def test_a_shard_that_an_unfinished_import_planned_is_left_to_the_import(audio_folder, tmp_path, digest):
    dest = tmp_path / "d.solfa"
    info = dataset_info(solfa.load_codec("mulaw"), EncodeSettings())
    create_info(dest, info)
    imported = PlannedClip(id="old", key="old", uri="old.npy").as_row()
    write_plan_part(dest, 0, iter([pa.Table.from_pylist([imported], schema=PLAN_SCHEMA)]))
    with pytest.raises(StoreError, match=r"`solfa import` .*again"):
        encode(audio_folder, dest)
    assert not (dest / "commit" / "00000.json").exists()
    assert not live_leases(dest)


def test_an_unfinished_dataset_says_so_and_opens_partially(audio_folder, tmp_path):
    codec = solfa.load_codec("mulaw")

    class Failing:
        def __getattr__(self, name):
            return getattr(codec, name)

        def encode(self, audio):
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        solfa.encode(audio_folder, tmp_path / "d.solfa", codec=Failing())
    with pytest.raises(StoreError, match=r"unfinished.*0 of 1"):
        solfa.open_dataset(tmp_path / "d.solfa")
    assert len(solfa.open_dataset(tmp_path / "d.solfa", partial=True)) == 0
    assert encode(audio_folder, tmp_path / "d.solfa").clips == 9


def test_a_stored_clip_decodes_to_channels_by_samples(audio_folder, tmp_path):
    encode(audio_folder, tmp_path / "d.solfa")
    clip = solfa.open_dataset(tmp_path / "d.solfa")[0]
    audio = solfa.load_codec("mulaw").decode(clip)
    assert audio.shape == (1, clip.num_samples) and audio.dtype == torch.float32
