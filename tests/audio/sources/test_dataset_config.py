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
from solfa.audio.sources.custom_metadata import uses_audio
from solfa.audio.sources.dataset_config import heard_by
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
        "prompt": f"{info['relpath']} {info['seconds_total']} s",
        "peak": np.abs(audio.numpy()).max(),
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
    assert good.caption == "x.wav 1 s"
    assert good.metadata["shape"] == [2, 1600] and 0.3 < good.metadata["peak"] < 1
    assert good.metadata["metadata_error"].startswith("odd is ") and "JSON" in good.metadata["metadata_error"]
    json.dumps(good.metadata, allow_nan=False)
    assert "get_custom_metadata failed: KeyError" in found["a/raise.wav"].error
    assert "cannot be decoded" in found["a/broken.wav"].error


OPERATIONS = """
import torch

def get_custom_metadata(info, audio):
    assert isinstance(audio, torch.Tensor) and audio.dtype == torch.float32 and audio.is_contiguous()
    left, right = audio
    spectrum = torch.stft(audio.mean(dim=0), 256, return_complex=True, window=torch.hann_window(256)).abs()
    louder = torch.nn.functional.pad(audio.clone().mul_(2), (0, 8)).clamp(-1, 1)
    return {
        "peak": audio.abs().max().item(),
        "rms": audio.pow(2).mean().sqrt(),
        "shape": list(audio.shape),
        "samples": audio.size(-1),
        "same": torch.equal(left, right),
        "bins": spectrum.size(0),
        "louder": louder[:, :-8].unsqueeze(0).cpu().numpy().max(),
        "valid": int(info["padding_mask"].sum()),
        "rate": info["sample_rate"],
        "whole": isinstance(info["seconds_total"], int) and info["seconds_total"],
        "begin": info["seconds_start"],
        "times": info["timestamps"],
        "loaded": info["load_time"] >= 0,
    }
"""


def test_the_function_gets_a_tensor_at_the_rate_and_channels_of_the_model(tmp_path):
    write(tmp_path / "audio/x.wav", encoded(tone(24_000, 1, 16_000), 16_000))
    (tmp_path / "custom.py").write_text(OPERATIONS)
    entry = {"id": "a", "path": "audio", "custom_metadata_module": "custom.py"}
    config = write_config(tmp_path, dataset_type="audio_dir", datasets=[entry])
    source = heard_by(open_source(config, trust_code=True), 44_100, 2)
    (found,) = source.recordings()
    assert found.error is None
    known = {name: found.metadata[name] for name in ("shape", "samples", "same", "bins", "valid", "rate", "whole")}
    assert known == {
        "shape": [2, 66_150],
        "samples": 66_150,
        "same": True,
        "bins": 129,
        "valid": 66_150,
        "rate": 44_100,
        "whole": 2,
    }
    assert (found.metadata["begin"], found.metadata["times"], found.metadata["loaded"]) == (0, [0.0, 1.0], True)
    assert 0.1 < found.metadata["peak"] <= 1 and found.metadata["louder"] >= found.metadata["peak"]
    assert 0 < found.metadata["rms"] < found.metadata["peak"]


def test_only_a_function_that_cannot_look_at_the_audio_does_without_it():
    def info_only(info, audio):
        return {"prompt": info["relpath"], "audio": 1}

    def nested(info, audio):
        return {"peak": max(abs(value) for value in [0] if audio is not None)}

    def deferred(info, audio):
        return (lambda: audio)()

    assert not uses_audio(info_only)
    assert uses_audio(nested) and uses_audio(deferred)
    assert uses_audio(lambda info, audio: {"n": len(audio)}) and uses_audio(lambda info, audio: locals())
    assert uses_audio(lambda *arguments: {}) and uses_audio(dict) and uses_audio(lambda info, audio=None, n=1: {})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"dataset_type": "s3", "datasets": [{"id": "a b", "s3_path": "s3://b/c/", "profile": "me"}]},
            "'a b'.*AWS_PROFILE=me",
        ),
        ({"dataset_type": "s3", "datasets": [{"id": "a", "path": "."}]}, "expected an s3_path"),
        ({"dataset_type": "s3", "datasets": [{"id": "a"}]}, "a path or an s3_path"),
        (
            {"dataset_type": "pre_encoded", "datasets": [{"id": "a", "path": ".", "latent_crop_length": 512}]},
            "already encoded",
        ),
        ({"dataset_type": "wds", "datasets": [{"id": "a", "path": "."}], "pre_encoded": True}, "already encoded"),
        ({"dataset_type": "wds", "datasets": [{"id": "a", "path": "."}], "volume_norm": True}, "volume_norm: .*false"),
        ({"dataset_type": "wds", "datasets": [{"id": "a", "path": "s4://b"}]}, "s3://, gs://"),
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


def test_what_only_concerns_training_changes_nothing(tmp_path):
    write(tmp_path / "audio/x.wav")
    entry = {"id": "a", "path": "audio"}
    training = {"random_crop": False, "epoch_steps": 2000, "resampled_shards": True, "volume_norm": False}
    config = write_config(tmp_path, dataset_type="wds", datasets=[entry], volume_norm_param=[-16, 2], **training)
    assert [recording.key for recording in open_source(config).recordings()] == ["a/x.wav"]


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
