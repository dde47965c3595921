"""Lets the tests of this folder import `pages`, and prepares the folder in which a page's code runs."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent))

from pages import CODEC, MODEL

import solfa
from solfa.codecs.catalogue import load_codec
from solfa.codecs.default_name import DEFAULT_CODEC
from solfa.config import parse_config
from solfa.encoding.api import encode
from solfa.xp.state_file import write_state
from tests.disks import no_waiting_for_disks  # noqa: F401


def write_tone(path: Path, seconds: float, sample_rate: int, channels: int, hz: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    time = np.arange(round(seconds * sample_rate)) / sample_rate
    tone = 0.4 * np.sin(2 * np.pi * hz * time) * np.exp(-time / 5)
    soundfile.write(path, np.repeat(tone[:, None], channels, axis=1), sample_rate)


@pytest.fixture(scope="session")
def prepared_audio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that docs/quickstart.md shows: five recordings, and one file that is not audio."""
    folder = tmp_path_factory.mktemp("docs") / "audio"
    write_tone(folder / "guitar.wav", 3.0, 44_100, 2, 196.0)
    write_tone(folder / "drums/kick.wav", 0.5, 44_100, 1, 60.0)
    write_tone(folder / "drums/loop.flac", 4.0, 22_050, 1, 90.0)
    write_tone(folder / "voice/hello.wav", 2.0, 16_000, 1, 220.0)
    write_tone(folder / "voice/story.ogg", 65.0, 8_000, 1, 180.0)
    (folder / "guitar.txt").write_text("A guitar plays one low note.\n")
    (folder / "drums/loop.json").write_text('{"caption": "A slow drum loop.", "bpm": 90}\n')
    (folder / "broken.wav").write_text("These are words, not samples.\n")
    return folder


@pytest.fixture(scope="session")
def prepared_dataset(prepared_audio: Path) -> Path:
    """What `solfa encode audio/ music.solfa` makes of it."""
    dataset = prepared_audio.with_name("music.solfa")
    encode(prepared_audio, dataset, codec=load_codec(DEFAULT_CODEC))
    return dataset


@pytest.fixture
def page_folder(tmp_path: Path, prepared_audio: Path, prepared_dataset: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `audio/` and the finished `music.solfa`; what Solfa keeps for later is beside them."""
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SOLFA_DORA_DIR", str(tmp_path / "solfa"))
    monkeypatch.delitem(sys.modules, "solfa.train", raising=False)
    monkeypatch.delattr(solfa, "train", raising=False)  # where experiments live is read when it is imported
    shutil.copytree(prepared_audio, tmp_path / "audio")
    shutil.copytree(prepared_dataset, tmp_path / "music.solfa")
    return tmp_path


@pytest.fixture(scope="session")
def prepared_experiments(prepared_dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `solfa train` would have left them, after a moment of training on `music.solfa`."""
    from solfa.solvers.experiment import Experiment
    from solfa.solvers.tasks.lm import LMConfig, LMSolver
    from tests.models.codec.tiny_codec import tiny_model
    from tests.models.conditioners.tiny_encoders import write_t5

    xps = tmp_path_factory.mktemp("trained") / "xps"
    text = {"kind": "text", "encoder": str(write_t5(xps.with_name("tiny-t5")))}
    values = {
        "solver": "lm",
        "device": "cpu",
        "dset": {"train": str(prepared_dataset), "valid": str(prepared_dataset)},
        "dataset": {"segment_seconds": 0.2, "batch_size": 2},
        "model": {"dim": 16, "num_layers": 1, "num_heads": 2, "ffn_dim": 32},
        "conditioner": {"conditioners": {"description": text}},
        "optim": {"epochs": 1, "updates_per_epoch": 2, "optimizer": {"kind": "adamw", "lr": 0.01}},
        "logging": {"tensorboard": False},
    }
    cfg = parse_config(LMConfig, values, "docs")
    LMSolver(cfg, Experiment(xps / MODEL, MODEL)).run()
    (xps / MODEL / "config.json").write_text(json.dumps(cfg.model_dump(mode="json")))
    codec = tiny_model(lstm_layers=0)
    write_state(xps / CODEC / "best.pt", {"states": {"model": codec.state_dict()}})
    settings = {"solver": "compression", "model": codec.config.model_dump(mode="json")}
    (xps / CODEC / "config.json").write_text(json.dumps(settings))
    return xps


@pytest.fixture
def experiments(page_folder: Path, prepared_experiments: Path) -> Path:
    """A copy of these experiments, of a user who keeps them beside the page."""
    shutil.copytree(prepared_experiments, page_folder / "solfa/xps")
    return page_folder / "solfa/xps"
