"""Arrays that scripts for MusicCaps wrote: recognised as a source and beside audio, imported once, never mistaken."""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

import solfa
from solfa.data.sources.dset import Source
from solfa.data.sources.stage_source import open_sources
from solfa.encoding import legacy_import
from solfa.errors import ConfigError
from solfa.experiments.run.encoded_source import prepare_source
from solfa.store.dataset import open_dataset
from solfa.store.export.dataset_export import export_dataset
from solfa.store.export.format_names import ExportFormat

CODEC = "mulaw:sample_rate=8000"
YTIDS = ["-0Gj8-vB1q4", "_abc", "zz"]


@pytest.fixture(autouse=True)
def info_is_logged(caplog):
    caplog.set_level(logging.INFO)


@pytest.fixture
def no_codec(monkeypatch):
    """Make loading a codec for an import an error."""

    def refuse(*arguments, **options):
        raise AssertionError("a codec was loaded")

    return lambda: monkeypatch.setattr(legacy_import, "load_codec", refuse)


def write_tokens(folder: Path, ytids=YTIDS, *, metadata_beside: bool = True) -> Path:
    """Write `pre_encoded_audio/` as the scripts do, [1, K, T] int64; return it."""
    arrays = folder / "pre_encoded_audio"
    arrays.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for number, ytid in enumerate(ytids):
        np.save(arrays / f"{ytid}.npy", rng.integers(0, 256, (1, 1, 800 + number)))
    place = folder if metadata_beside else arrays
    (place / "pre_encoded_metadata.json").write_text(json.dumps({ytid: f"{ytid}.npy" for ytid in ytids}))
    return arrays


def write_audio(folder: Path, names=YTIDS) -> Path:
    folder.mkdir(parents=True)
    for number, name in enumerate(names):
        samples = 0.3 * np.sin(np.arange(4000 + number) / (5 + number))
        solfa.audio.write_audio(folder / f"{name}.wav", samples[None].astype(np.float32), 8000)
    return folder


def source(path: Path, **values) -> Source:
    return Source(path=str(path), **{"codec": CODEC, **values})


@pytest.mark.parametrize("metadata_beside", [True, False])
@pytest.mark.parametrize("below", ["pre_encoded_audio", "."])
def test_a_token_folder_is_imported_once_and_said(tmp_path, caplog, no_codec, metadata_beside, below):
    folder = write_tokens(tmp_path / "caps", metadata_beside=metadata_beside).parent / below
    first = prepare_source(source(folder, where={"seconds": {"min": 0.01}}), tmp_path / "cache")
    assert first.codec is None and Path(first.path).parent == tmp_path / "cache" and first.where is not None
    assert "importing" in caplog.text and "3 clips" in caplog.text
    opened = open_sources([first])
    assert opened.values("id") == YTIDS and opened.array.width == 1
    expected = np.load(tmp_path / "caps/pre_encoded_audio/zz.npy")[0].T
    np.testing.assert_array_equal(open_dataset(first.path)["zz"].array, expected)
    caplog.clear()
    no_codec()
    assert prepare_source(source(folder, where={"seconds": {"min": 0.01}}), tmp_path / "cache") == first
    assert "importing" not in caplog.text and "using it" in caplog.text


def test_segments_are_for_audio_and_said_to_be(tmp_path, caplog):
    """A folder of arrays may take the place of audio in a config that says how audio is cut."""
    arrays = write_tokens(tmp_path)
    plain = prepare_source(source(arrays), tmp_path / "cache")
    assert "segment_seconds" not in caplog.text
    assert prepare_source(source(arrays, segment_seconds=0.01), tmp_path / "cache") == plain
    assert "segment_seconds" in caplog.text


def test_other_files_make_another_dataset(tmp_path):
    arrays = write_tokens(tmp_path)
    before = prepare_source(source(arrays), tmp_path / "cache")
    np.save(arrays / "zz.npy", np.zeros((1, 17), np.int64))
    after = prepare_source(source(arrays), tmp_path / "cache")
    assert after.path != before.path
    assert len(open_dataset(after.path)["zz"].array) == 17 and len(open_dataset(before.path)["zz"].array) == 802


def test_an_export_says_which_codec_made_it(tmp_path, no_codec):
    solfa.encode(write_audio(tmp_path / "wav"), tmp_path / "d.solfa", codec=solfa.load_codec(CODEC))
    export_dataset(open_dataset(tmp_path / "d.solfa"), tmp_path / "out", ExportFormat.MUSICCAPS)
    no_codec()
    for path in (tmp_path / "out", tmp_path / "out/pre_encoded_audio"):
        prepared = prepare_source(source(path, codec=None), tmp_path / "cache")
        assert open_sources([prepared]).fingerprint == open_dataset(tmp_path / "d.solfa").info.fingerprint
    with pytest.raises(ConfigError, match=r"encoded with mulaw.*, not linear"):
        prepare_source(source(tmp_path / "out", codec="linear"), tmp_path / "cache")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"codec": None}, "codec.*encodec_32khz"),
        ({"use_pre_encoded": False}, "use_pre_encoded is false"),
        ({"manifest": 1}, "manifest .*null.*dset.train="),
    ],
)
def test_what_tokens_cannot_follow_is_refused(tmp_path, values, told):
    with pytest.raises(ConfigError, match=told):
        prepare_source(source(write_tokens(tmp_path), **values), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("inside", [True, False])
def test_tokens_beside_audio_are_used_and_the_rest_is_encoded(tmp_path, caplog, inside):
    wav = write_audio(tmp_path / "caps/wav", [*YTIDS, "new"])
    (wav / "zz.txt").write_text("a bell")
    arrays = write_tokens(wav if inside else wav.parent, [*YTIDS, "nobody"])
    (arrays / "_abc.npy").write_bytes(b"torn")
    prepared = prepare_source(source(wav), tmp_path / "cache")
    dataset = open_dataset(prepared.path)
    assert sorted(dataset.ids()) == ["-0Gj8-vB1q4.wav", "_abc.wav", "new.wav", "zz.wav"]
    assert len(dataset["zz.wav"].array) == 802 and dataset["zz.wav"].caption == "a bell"
    assert len(dataset["new.wav"].array) == 4003 and len(dataset["_abc.wav"].array) == 4001  # from the audio
    assert "nobody" in caplog.text and "left out" in caplog.text
    caplog.clear()
    assert prepare_source(source(wav), tmp_path / "cache") == prepared
    assert "encoding" not in caplog.text and "importing" not in caplog.text


def test_use_pre_encoded_decides_whether_audio_may_be_encoded_and_tokens_may_be_used(tmp_path, caplog):
    wav = write_audio(tmp_path / "caps/wav")
    with pytest.raises(ConfigError, match=r"use_pre_encoded is true.*nothing"):
        prepare_source(source(wav, use_pre_encoded=True), tmp_path / "cache")
    write_tokens(wav.parent, YTIDS[:2])
    with pytest.raises(ConfigError, match=r"use_pre_encoded is true.*1 recording \(zz\.wav\)"):
        prepare_source(source(wav, use_pre_encoded=True), tmp_path / "cache")
    shutil.rmtree(wav.parent / "pre_encoded_audio")
    (wav.parent / "pre_encoded_metadata.json").unlink()
    write_tokens(wav.parent)
    prepared = prepare_source(source(wav, use_pre_encoded=True), tmp_path / "cache")
    assert [len(clip.array) for clip in open_dataset(prepared.path)] == [800, 801, 802]
    own = prepare_source(source(wav, use_pre_encoded=False), tmp_path / "cache")
    assert [len(clip.array) for clip in open_dataset(own.path)] == [4000, 4001, 4002]


def test_a_dataset_beside_the_audio_is_passed_over_if_told_so(tmp_path):
    wav = write_audio(tmp_path / "wav")
    solfa.encode(wav, tmp_path / "wav.solfa", codec=solfa.load_codec(CODEC))
    assert prepare_source(source(wav), tmp_path / "cache").path == str(tmp_path / "wav.solfa")
    own = prepare_source(source(wav, use_pre_encoded=False), tmp_path / "cache")
    assert Path(own.path).parent == tmp_path / "cache"
    with pytest.raises(ConfigError, match="use_pre_encoded is false"):
        prepare_source(source(tmp_path / "wav.solfa", use_pre_encoded=False), tmp_path / "cache")


@pytest.mark.parametrize("fault", ["other recordings", "other codec"])
def test_tokens_that_do_not_fit_the_audio_are_passed_over_with_the_reason(tmp_path, caplog, fault):
    wav = write_audio(tmp_path / "caps/wav")
    arrays = write_tokens(wav.parent, ["a", "b"] if fault == "other recordings" else YTIDS)
    if fault == "other codec":
        for path in arrays.glob("*.npy"):
            np.save(path, np.full((4, 100), 1000))
    prepared = prepare_source(source(wav), tmp_path / "cache")
    assert [len(clip.array) for clip in open_dataset(prepared.path)] == [4000, 4001, 4002]
    assert "not using it" in caplog.text and ("none of the clips" in caplog.text)


def test_an_interrupted_import_is_finished(tmp_path):
    arrays = write_tokens(tmp_path)
    dataset = Path(prepare_source(source(arrays), tmp_path / "cache").path)
    for name in ("manifest", "commit"):
        shutil.rmtree(dataset / name)
    assert open_sources([prepare_source(source(arrays), tmp_path / "cache")]).values("id") == YTIDS


def test_settings_at_their_defaults_are_not_stored_so_that_earlier_runs_can_continue():
    assert Source(path="a").model_dump(mode="json").keys().isdisjoint({"use_pre_encoded", "outdated", "leave_out"})
    changed = Source(path="a", use_pre_encoded=False, outdated="refuse", leave_out=("x",))
    assert Source.model_validate(changed.model_dump(mode="json")) == changed
