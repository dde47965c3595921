"""Audio for training: encoded once, found again, extended, and the same batches as from a dataset made beforehand."""

import json
import logging
import os
import re
import shutil
from pathlib import Path

import pytest
import torch

import solfa
from solfa.data.batching.stage_batches import Batching, make_stage_loader
from solfa.data.sources.dset import Dset, Source
from solfa.data.sources.stage_source import OpenedSource, open_sources
from solfa.encoding import api
from solfa.errors import ConfigError
from solfa.experiments.run import encoded_source as prepare
from solfa.experiments.run.encoded_source import cache_path, find_encoded, prepare_dset, prepare_source
from tests.codecs.tiny import make_encodec

CODEC = "mulaw:sample_rate=8000"


@pytest.fixture(autouse=True)
def info_is_logged(caplog):
    caplog.set_level(logging.INFO)


@pytest.fixture
def no_codec(monkeypatch):
    """Make loading any codec an error."""

    def refuse(*arguments, **options):
        raise AssertionError("a codec was loaded")

    def forbid():
        monkeypatch.setattr(api, "_load", refuse)
        monkeypatch.setattr(prepare, "load_codec", refuse)

    return forbid


def audio(folder: Path, **values) -> Source:
    return Source(path=str(folder), codec=CODEC, **values)


def encode(folder: Path, dest: Path, codec: str = CODEC, **options) -> None:
    solfa.encode(folder, dest, codec=solfa.load_codec(codec), **options)


def epoch(source: OpenedSource) -> list:
    return list(make_stage_loader(source, Batching(batch_size=3, segment_seconds=0.25), "train", seed=3))


@pytest.mark.slow
def test_a_run_on_audio_sees_the_batches_of_a_run_on_the_dataset_encoded_from_it(audio_folder, tmp_path):
    """In processes, elsewhere, at another time, and under another name."""
    solfa.encode(audio_folder, tmp_path / "elsewhere/made.solfa", codec=CODEC, segment_seconds=1.5, num_encoders=1)
    prepared = prepare_source(audio(audio_folder, segment_seconds=1.5), tmp_path / "cache")
    before = open_sources([Source(path=str(tmp_path / "elsewhere/made.solfa"))])
    after = open_sources([prepared])
    assert Path(prepared.path).parent == tmp_path / "cache"
    assert (after.digest, after.fingerprint) == (before.digest, before.fingerprint)
    expected, found = epoch(before), epoch(after)
    assert len(expected) == len(found) >= 4
    for left, right in zip(expected, found, strict=True):
        assert left.ids == right.ids and left.captions == right.captions and left.metadata == right.metadata
        assert torch.equal(left.arrays, right.arrays) and torch.equal(left.mask, right.mask)
        assert torch.equal(left.starts, right.starts)


def test_a_dataset_stays_as_it_is(audio_folder, tmp_path, no_codec):
    encode(audio_folder, tmp_path / "d.solfa")
    no_codec()
    for codec in (None, CODEC):
        source = Source(path=str(tmp_path / "d.solfa"), codec=codec, where={"seconds": 2.0}, weight=2.0)
        assert prepare_source(source, tmp_path / "cache") is source
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"codec": "mulaw"}, "mulaw:.*8000.*, not mulaw; set codec to null"),
        ({"segment_seconds": 3}, "segment_seconds .*set it to null"),
        ({"audio_root": "/"}, "audio_root .*set it to null"),
    ],
)
def test_settings_of_audio_are_refused_for_a_dataset(audio_folder, tmp_path, values, told):
    encode(audio_folder, tmp_path / "d.solfa")
    with pytest.raises(ConfigError, match=rf"d\.solfa: .*{told}"):
        prepare_source(Source(path=str(tmp_path / "d.solfa"), **values), tmp_path / "cache")


def test_audio_without_a_codec_or_without_being_there_is_refused(audio_folder, tmp_path):
    with pytest.raises(ConfigError, match=r"this is audio.*codec.*Solfa dataset"):
        prepare_source(Source(path=str(audio_folder)), tmp_path / "cache")
    with pytest.raises(ConfigError, match="nowhere: no such file"):
        prepare_source(audio(tmp_path / "nowhere"), tmp_path / "cache")
    with pytest.raises(ConfigError, match="set manifest to null"):
        prepare_source(audio(audio_folder, manifest=1), tmp_path / "cache")


@pytest.mark.parametrize("open_it", [prepare_source, find_encoded])
def test_code_in_a_dataset_config_is_not_run_and_the_command_to_type_instead_is_named(audio_folder, tmp_path, open_it):
    (tmp_path / "evil.py").write_text("raise SystemExit('I ran')\n")
    entry = {"id": "a", "path": str(audio_folder), "custom_metadata_module": "evil.py"}
    config = tmp_path / "my songs.json"
    config.write_text(json.dumps({"dataset_type": "audio_dir", "datasets": [entry]}))
    typed = f"solfa encode '{config}' 'my songs.solfa' --codec {CODEC} --trust-code"
    with pytest.raises(ConfigError, match=rf"evil\.py.*{re.escape(typed)}.*dset\.train=my songs\.solfa") as refused:
        open_it(audio(config), tmp_path / "cache")
    assert "trust_code" not in str(refused.value), "which no setting of training is"


@pytest.mark.parametrize("name", ["audio.solfa", "another.solfa"])
def test_a_finished_dataset_beside_the_audio_is_used_and_the_log_says_so(
    audio_folder, tmp_path, caplog, no_codec, name
):
    encode(audio_folder, tmp_path / name)
    no_codec()
    prepared = prepare_source(audio(audio_folder, where={"seconds": {"min": 1}}, weight=3.0), tmp_path / "cache")
    assert prepared == Source(path=str(tmp_path / name), where=prepared.where, weight=3.0)
    assert prepared.where is not None and len(open_sources([prepared])) == 5
    assert re.search(rf"{name}: us\w+ .*{audio_folder}, .*mulaw:bits=8,sample_rate=8000", caplog.text)
    assert not (tmp_path / "cache").exists()


def test_datasets_beside_the_audio_that_do_not_fit_are_passed_over_with_the_reason(audio_folder, tmp_path, caplog):
    encode(audio_folder, tmp_path / "a.solfa", "mulaw:sample_rate=4000")
    encode(audio_folder, tmp_path / "b.solfa", segment_seconds=3)
    encode(audio_folder, tmp_path / "c.solfa", limit=4)
    encode(audio_folder / "voice", tmp_path / "d.solfa")
    (tmp_path / "e.solfa").mkdir()
    (tmp_path / "e.solfa/dataset.json").write_text('{"format_version": 99}')
    shutil.copytree(tmp_path / "c.solfa", tmp_path / "f.solfa")
    shutil.rmtree(tmp_path / "f.solfa/manifest")
    prepared = prepare_source(audio(audio_folder, segment_seconds=30), tmp_path / "cache")
    assert Path(prepared.path).parent == tmp_path / "cache"
    for name, reason in [
        ("a", "encoded with mulaw:bits=8,sample_rate=4000"),
        ("b", r"3\.0 s .*not 30\.0 s"),
        ("c", "5 recordings missing"),
        ("d", "9 recordings missing"),
        ("e", "format version 99"),
        ("f", "unfinished"),
    ]:
        (line,) = [line for line in caplog.messages if line.startswith(f"{tmp_path}/{name}.solfa: not ")]
        assert re.search(reason, line)
    assert any("encoding" in line and "/cache/" in line for line in caplog.messages)


def test_a_dataset_with_recordings_of_another_size_is_not_used_and_a_copied_one_is_with_a_warning(
    audio_folder, tmp_path, caplog
):
    encode(audio_folder, tmp_path / "audio.solfa")
    os.utime(audio_folder / "long.flac", (1, 1))
    assert prepare_source(audio(audio_folder), tmp_path / "cache").path == str(tmp_path / "audio.solfa")
    assert re.search(r"audio\.solfa: 1 recording \(long\.flac\) modified", caplog.text)
    shutil.copy(audio_folder / "voice/b.ogg", audio_folder / "voice/a.wav")
    assert prepare_source(audio(audio_folder), tmp_path / "cache").path != str(tmp_path / "audio.solfa")
    assert re.search(r"1 recording changed size.*voice/a\.wav", caplog.text)


def test_the_second_time_the_cached_dataset_is_used_without_the_codec(audio_folder, tmp_path, caplog, no_codec, digest):
    first = prepare_source(audio(audio_folder), tmp_path / "cache")
    before = digest(Path(first.path))
    no_codec()
    caplog.clear()
    assert prepare_source(audio(audio_folder), tmp_path / "cache") == first
    assert digest(Path(first.path)) == before
    assert re.search(rf"{first.path}: us\w+ .*{audio_folder}", caplog.text) and ": encoding " not in caplog.text


def test_new_recordings_are_appended_and_an_interrupted_encoding_is_finished(audio_folder, tmp_path):
    first = prepare_source(audio(audio_folder), tmp_path / "cache")
    shutil.copy(audio_folder / "voice/a.wav", audio_folder / "voice/c.wav")
    second = prepare_source(audio(audio_folder), tmp_path / "cache")
    assert first == second and len(open_sources([second])) == 10
    assert len(open_sources([second.model_copy(update={"manifest": 1})])) == 9
    for path in Path(first.path).glob("manifest/*"):
        path.unlink()
    Path(first.path, "commit/00001.json").unlink()
    assert len(open_sources([prepare_source(audio(audio_folder), tmp_path / "cache")])) == 10


def test_what_the_cache_cannot_follow_is_warned_of(audio_folder, tmp_path, caplog):
    prepare_source(audio(audio_folder), tmp_path / "cache")
    (audio_folder / "long.flac").unlink()
    os.utime(audio_folder / "voice/a.wav", (1, 1))
    prepare_source(audio(audio_folder), tmp_path / "cache")
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "1 recording (voice/a.wav)" in warnings[0] and "changed" in warnings[0] and "remove" in warnings[0]
    assert "1 recording (long.flac)" in warnings[1] and "gone" in warnings[1]


def test_clips_of_recordings_that_are_gone_or_changed_can_be_left_out_or_refused(audio_folder, tmp_path, caplog):
    before = open_sources([prepare_source(audio(audio_folder), tmp_path / "cache")])
    (audio_folder / "long.flac").unlink()
    shutil.copy(audio_folder / "voice/b.ogg", audio_folder / "voice/a.wav")
    with pytest.raises(ConfigError, match=r"2 recordings \(long\.flac, .*outdated.*leave_out"):
        prepare_source(audio(audio_folder, outdated="refuse"), tmp_path / "cache")
    kept = open_sources([prepare_source(audio(audio_folder), tmp_path / "cache")])
    assert kept.digest == before.digest
    left = prepare_source(audio(audio_folder, outdated="leave_out"), tmp_path / "cache")
    assert "left out" in caplog.text
    assert set(before.values("id")) - set(open_sources([left]).values("id")) == {"long.flac", "voice/a.wav"}
    with pytest.raises(ConfigError, match="leave_out names all"):
        open_sources([left.model_copy(update={"leave_out": tuple(before.values("id"))})])


def test_failed_recordings_are_warned_of_with_the_first_reason(audio_folder, tmp_path, caplog):
    (audio_folder / "bad.wav").write_bytes(b"RIFF nothing")
    prepared = prepare_source(audio(audio_folder), tmp_path / "cache")
    assert len(open_sources([prepared])) == 9
    assert re.search(r"1 recordings? failed.*bad\.wav: ", caplog.text)
    assert prepare_source(audio(audio_folder), tmp_path / "cache") == prepared


def test_sources_codecs_and_settings_have_datasets_of_their_own(audio_folder, tmp_path, monkeypatch):
    sources = [
        audio(audio_folder),
        audio(audio_folder, segment_seconds=3),
        audio(audio_folder / "voice"),
        audio(audio_folder, audio_root=str(tmp_path)),
        Source(path=str(audio_folder), codec="mulaw"),
    ]
    assert len({cache_path(source, tmp_path) for source in sources}) == 5
    monkeypatch.chdir(audio_folder.parent)
    for spelled in ("audio", "./audio/", "audio/../audio"):
        assert cache_path(Source(path=spelled, codec=CODEC), tmp_path) == cache_path(sources[0], tmp_path)


def test_every_source_of_a_dset_is_prepared(audio_folder, tmp_path):
    dset = Dset(
        train=(audio(audio_folder / "drums"), audio(audio_folder / "voice")), valid=(audio(audio_folder / "voice"),)
    )
    prepared = prepare_dset(dset, tmp_path / "cache")
    assert len(open_sources(prepared.train)) == 8
    assert prepared.valid == prepared.train[1:]


def test_datasets_of_a_codec_whose_checkpoint_is_gone_are_still_used(audio_folder, tmp_path):
    codec = make_encodec(tmp_path / "tiny", "24khz")
    source = Source(path=str(audio_folder / "drums"), codec=f"{codec}:num_codebooks=2")
    other_cut = source.model_copy(update={"segment_seconds": 20.0})
    cached = cache_path(other_cut, tmp_path / "cache")
    encode(audio_folder / "drums", audio_folder / "drums.solfa", source.codec)
    encode(audio_folder / "drums", cached, source.codec, segment_seconds=20.0)
    shutil.rmtree(codec)
    assert prepare_source(source, tmp_path / "cache").path == str(audio_folder / "drums.solfa")
    assert prepare_source(other_cut, tmp_path / "cache") == Source(path=str(cached))
    opened = open_sources([Source(path=str(cached))])
    assert (opened.array.width, len(opened)) == (2, 6)
