"""The dataset JSON of stable-audio-tools."""

import io
import json
import re
import sys
import tarfile

import pytest
from hostile import encoded, tone

from solfa.audio.probe import probe
from solfa.audio.sources.choice import open_source
from solfa.audio.sources.location import locate_recording
from solfa.errors import ConfigError

WAV = encoded(tone(1600, 2))

MODULE = """
import numpy as np

def get_custom_metadata(info, audio):
    if info["relpath"] == "skip.wav":
        return {"__reject__": True}
    if info["relpath"] == "raise.wav":
        raise KeyError("nothing")
    return {
        "prompt": f"{info['relpath']} {info['seconds_total']:.1f} s",
        "peak": np.abs(audio).max(),
        "shape": audio.shape,
        "odd": object(),
    }
"""


def write_config(folder, **values):
    path = folder / "dataset.json"
    path.write_text(json.dumps(values))
    return path


def write(path, content=WAV):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_folders_of_a_config_are_listed_under_their_ids(tmp_path):
    write(tmp_path / "one/x.wav")
    write(tmp_path / "far/two/x.wav")
    (tmp_path / "config").mkdir()
    datasets = [{"id": "a", "path": "../one"}, {"id": "b", "path": str(tmp_path / "far/two")}]
    config = write_config(
        tmp_path / "config", dataset_type="audio_dir", datasets=datasets, random_crop=True, drop_last=False
    )
    source = open_source(config)
    found = list(source.recordings())
    assert [recording.key for recording in found] == ["a/x.wav", "b/x.wav"]
    for recording in found:
        assert probe(locate_recording(source.root, recording)).num_samples == 1600


def test_local_tars_are_read_in_place(tmp_path):
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        for name, content in (("k.wav", WAV), ("k.json", b'{"prompt": "hi"}')):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    config = write_config(tmp_path, dataset_type="wds", datasets=[{"id": "w", "path": "s.tar"}])
    source = open_source(config)
    (recording,) = source.recordings()
    assert (recording.key, recording.caption) == ("w/s.tar/k.wav", "hi")
    assert probe(locate_recording(source.root, recording)).num_samples == 1600


def test_custom_metadata_is_asked_for_every_recording(tmp_path):
    for name in ("x.wav", "skip.wav", "raise.wav"):
        write(tmp_path / "audio" / name)
    write(tmp_path / "audio/broken.wav", b"RIFF")
    (tmp_path / "custom.py").write_text(MODULE)
    entry = {"id": "a", "path": "audio", "custom_metadata_module": "custom.py"}
    config = write_config(tmp_path, dataset_type="audio_dir", datasets=[entry])
    found = {recording.key: recording for recording in open_source(config, trust_code=True).recordings()}
    assert set(found) == {"a/broken.wav", "a/raise.wav", "a/x.wav"}
    good = found["a/x.wav"]
    assert good.caption == "x.wav 0.1 s"
    assert good.metadata["shape"] == [2, 1600] and 0.3 < good.metadata["peak"] < 1
    assert good.metadata["metadata_error"].startswith("odd is ") and "JSON" in good.metadata["metadata_error"]
    json.dumps(good.metadata, allow_nan=False)
    assert "get_custom_metadata failed: KeyError" in found["a/raise.wav"].error
    assert "cannot be decoded" in found["a/broken.wav"].error


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dataset_type": "s3", "datasets": [{"id": "a", "s3_path": "s3://b"}]}, "'s3' is not supported"),
        ({"dataset_type": "pre_encoded", "datasets": [{"id": "a", "path": "."}]}, "already encoded"),
        (
            {"dataset_type": "wds", "datasets": [{"id": "a", "s3_path": "s3://b"}]},
            "local path.*'s3://b'",
        ),
        ({"dataset_type": "audio_dir", "datasets": []}, "datasets: expected at least one"),
        (
            {"dataset_type": "audio_dir", "datasets": [{"id": "a", "path": "missing"}]},
            "'a': .*: missing",
        ),
        ({"dataset_type": "audio_dir", "dataset": []}, "did you mean 'datasets'"),
        ({"dataset_type": "audio_dir", "datasets": [{"id": "a", "pth": "."}]}, "pth: unknown field"),
        ({"dataset_type": "folder", "datasets": []}, "dataset_type: "),
        ({"dataset_type": "audio_dir", "datasets": [{"id": "a", "path": "."}] * 2}, r"datasets: .*\bids?\b.*a, a"),
        ({"dataset_type": "audio_dir", "datasets": [{"id": "a", "path": "dataset.json"}]}, "expected a folder"),
        (
            {"dataset_type": "audio_dir", "datasets": [{"id": "a", "path": ".", "custom_metadata_module": "none.py"}]},
            r"none\.py.*get_custom_metadata",
        ),
        (
            {"dataset_type": "audio_dir", "datasets": [{"id": "a", "path": ".", "custom_metadata_module": "bad.py"}]},
            r"bad\.py.*ZeroDivisionError",
        ),
    ],
)
def test_wrong_config_gets_a_sentence(tmp_path, values, message):
    (tmp_path / "none.py").write_text("x = 1\n")
    (tmp_path / "bad.py").write_text("1 / 0\n")
    with pytest.raises(ConfigError, match=message):
        open_source(write_config(tmp_path, **values), trust_code=True)


def test_code_that_a_config_names_runs_only_if_it_is_trusted(tmp_path):
    write(tmp_path / "audio/x.wav")
    (tmp_path / "evil.py").write_text("raise SystemExit('I ran')\n")
    entry = {"id": "a", "path": "audio", "custom_metadata_module": "evil.py"}
    config = write_config(tmp_path, dataset_type="audio_dir", datasets=[entry])
    with pytest.raises(ConfigError, match=rf"{re.escape(str(tmp_path))}/evil\.py.*`trust_code=True`"):
        open_source(config)


def test_the_folder_one_is_in_is_not_on_the_path_of_trusted_code(tmp_path, monkeypatch):
    write(tmp_path / "there/audio/x.wav")
    (tmp_path / "there/custom.py").write_text("import beside_me\n" + MODULE)
    (tmp_path / "here").mkdir()
    (tmp_path / "here/beside_me.py").write_text("raise SystemExit('I ran')\n")
    entry = {"id": "a", "path": "audio", "custom_metadata_module": "custom.py"}
    config = write_config(tmp_path / "there", dataset_type="audio_dir", datasets=[entry])
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    with pytest.raises(ConfigError, match="beside_me"):
        open_source(config, trust_code=True)


def test_module_that_no_config_names_is_not_run(tmp_path):
    write(tmp_path / "audio/x.wav")
    (tmp_path / "audio/custom.py").write_text("raise SystemExit\n")
    config = write_config(tmp_path, dataset_type="audio_dir", datasets=[{"id": "a", "path": "audio"}])
    assert [recording.key for recording in open_source(config).recordings()] == ["a/x.wav"]
