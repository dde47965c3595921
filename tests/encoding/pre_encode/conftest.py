"""Small collections, a tiny checkpoint, and a way to pre-encode them and to read back what was written."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

ROOT = str(Path(__file__).parents[3])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

MULAW = "mulaw:bits=16,sample_rate=16000"
"""Fast, and nearly exact: what was encoded can be told from the codes."""


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def oobleck(tmp_path_factory):
    """The settings that name a tiny oobleck + vae: hop 40, 3 latent channels, stereo at 44.1 kHz."""
    from tests.codecs.tiny import make_stable_audio_oobleck

    path = make_stable_audio_oobleck(tmp_path_factory.mktemp("oobleck"))
    return {"model_config": str(path), "ckpt_path": str(path.with_name("model.safetensors"))}


@pytest.fixture
def wav(tmp_path):
    """Write noise under `audio/`, different for every name: the second half is 0.2 higher, so its sign shows."""

    def write(name, num_samples, sample_rate=16000, channels=1, scale=0.2):
        path = tmp_path / "audio" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        audio = scale * np.random.default_rng(len(name) + num_samples).uniform(-1, 1, (num_samples, channels))
        audio[num_samples // 2 :] += scale
        soundfile.write(path, audio.astype(np.float32), sample_rate, subtype="FLOAT")
        return audio.T.astype(np.float32)

    return write


@pytest.fixture
def dataset_config(tmp_path):
    """Write a dataset config about `audio/`."""

    def write(function=None, **more):
        entry = {"id": "mine", "path": "audio"}
        if function is not None:
            (tmp_path / "describe.py").write_text(function)
            entry["custom_metadata_module"] = "describe.py"
        path = tmp_path / "data.json"
        path.write_text(json.dumps({"dataset_type": "audio_dir", "datasets": [entry], **more}))
        return path

    return write


@pytest.fixture
def settings(tmp_path, dataset_config):
    """Settings of a quick run into `out/`; a model among the changes replaces the embedded one."""

    def make(**changes):
        model = {} if "model_config" in changes else {"pretrained_name": MULAW, "is_discrete": True}
        found = tmp_path / "data.json"
        usual = {
            "dataset_config": str(found if found.exists() else dataset_config()),
            "output_path": str(tmp_path / "out"),
            "sample_size": 8000,
            "batch_size": 2,
            "num_workers": 0,
        }
        return {**model, **usual, **changes}

    return make


@pytest.fixture
def run(settings):
    """Pre-encode in this process."""
    from solfa.encoding.pre_encode.config import parse_pre_encode
    from solfa.encoding.pre_encode.session import pre_encode

    return lambda **changes: pre_encode(parse_pre_encode(settings(**changes)), trust_code=True)


@pytest.fixture
def read(tmp_path):
    """Read all items that were written, by id: array and JSON."""

    def items(name="out"):
        return {
            path.stem: (np.load(path.with_suffix(".npy")), json.loads(path.read_text()))
            for path in sorted((tmp_path / name).glob("*/*.json"))
        }

    return items


@pytest.fixture
def failures(tmp_path):
    """Read the list of what failed: recording to reason."""

    def rows(name="out"):
        lines = (tmp_path / name / "failures.jsonl").read_text().splitlines()
        return {row["relpath"]: row["error"] for row in map(json.loads, lines)}

    return rows
