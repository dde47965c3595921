"""The demo's collection is repeatable and has one of everything."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from solfa.demo.collection import BROKEN_FILE, DEMO_CLIPS, write_demo_clip, write_demo_collection
from solfa.errors import ConfigError


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("collection") / "audio"
    write_demo_collection(folder)
    return folder


def test_it_has_every_format_rate_channel_count_and_length(folder):
    infos = [soundfile.info(folder / clip.path) for clip in DEMO_CLIPS]
    kinds = {(info.format, info.subtype) for info in infos}
    assert len(infos) == 12
    assert {"WAV", "FLAC", "OGG", "AIFF"} <= {info.format for info in infos}
    assert ("WAV", "PCM_16") in kinds and ("WAV", "FLOAT") in kinds
    assert any(clip.path.endswith(".mp3") for clip in DEMO_CLIPS)
    assert {info.samplerate for info in infos} == {16_000, 22_050, 44_100, 48_000}
    assert {info.channels for info in infos} == {1, 2}
    lengths = sorted(info.duration for info in infos)
    assert lengths[0] == 0.5 and lengths[-1] > 30 and len(set(lengths)) == 12
    assert {clip.path.split("/")[0] for clip in DEMO_CLIPS} == {"strings", "chords", "drums", "voice"}


def test_levels_are_sane(folder):
    for clip in DEMO_CLIPS:
        audio, _ = soundfile.read(folder / clip.path, always_2d=True)
        assert 0.5 < np.abs(audio).max() < 0.85, clip.path  # lossy formats move the peak of 0.7
        assert 0.03 < np.sqrt(np.square(audio).mean()) < 0.35, clip.path
        assert np.abs(audio.mean(axis=0)).max() < 0.01, clip.path


def test_captions_are_beside_the_audio_as_text_or_json_or_missing(folder):
    described = {"text": 0, "json": 0, "none": 0}
    for clip in DEMO_CLIPS:
        path = folder / clip.path
        if path.with_suffix(".json").exists():
            assert json.loads(path.with_suffix(".json").read_text())["caption"] == clip.caption
            described["json"] += 1
        elif path.with_suffix(".txt").exists():
            assert path.with_suffix(".txt").read_text().strip() == clip.caption
            described["text"] += 1
        else:
            described["none"] += 1
    assert all(described.values())
    backbeat = json.loads((folder / "drums/backbeat.json").read_text())
    assert backbeat["bpm"] == 96 and backbeat["instrument"] == "drum kit"


def test_one_file_is_not_audio(folder):
    with pytest.raises(soundfile.LibsndfileError):
        soundfile.info(folder / BROKEN_FILE)


def test_nothing_else_is_written_and_it_is_small(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) == 12 + 1 + sum(clip.caption is not None for clip in DEMO_CLIPS)
    assert sum(path.stat().st_size for path in files) < 15_000_000


def test_the_same_seed_gives_the_same_sound_and_another_seed_another(folder, tmp_path):
    # The shortest of each way of writing; the rest differs only in what is played.
    for name in ("strings/one_note.wav", "voice/question.aiff", "drums/half_time.ogg"):
        clip = next(clip for clip in DEMO_CLIPS if clip.path == name)
        for seed in (0, 1):
            write_demo_clip(clip, tmp_path / str(seed), seed)
        first, again, other = (soundfile.read(root / name)[0] for root in (folder, tmp_path / "0", tmp_path / "1"))
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


def test_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(ConfigError, match=r"taken: .*folder.*found a file"):
        write_demo_collection(tmp_path / "taken")
