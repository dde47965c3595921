"""Bits come with what the codec loses, measured on the recordings themselves, or are said to come without."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

import solfa
from solfa.audio import read_audio
from solfa.codecs.families.mulaw import MulawOptions
from solfa.codecs.families.quantized import WaveformCodec
from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.ops.audio_metrics import batch_mel_distance_db, si_sdr
from solfa.solvers.config import EvaluateConfig
from solfa.solvers.standard import StandardSolver
from tests.solvers.tasks import test_flow, test_sashimi
from tests.solvers.waveforms import sashimi_values

CODEC = WaveformCodec(MulawOptions(bits=test_sashimi.BITS, sample_rate=test_sashimi.RATE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four recordings, and a dataset of them in which every recording is two clips."""
    folder = tmp_path_factory.mktemp("distortion")
    rng = np.random.default_rng(0)
    (folder / "audio").mkdir()
    for name in "abcd":
        sound = 0.3 * np.cumsum(rng.standard_normal(2 * test_sashimi.RATE)) / np.sqrt(test_sashimi.RATE)
        soundfile.write(folder / "audio" / f"{name}.wav", np.clip(sound, -1, 1), test_sashimi.RATE)
    solfa.encode(folder / "audio", folder / "tones.solfa", codec=CODEC, segment_seconds=1.0, num_encoders=1)
    return folder


def solver_of(folder: Path, where: Path, **evaluate: Any) -> StandardSolver[Any]:
    """A run whose evaluate stage counts bits on four of the clips."""
    solver = test_sashimi.solver_of(where, sashimi_values(folder / "tones.solfa", dset__hold_out={"clips": 4}))
    settings = {"metrics": ["bits"], "num_clips": 3, "seconds": 0.5, **evaluate}
    solver.cfg = solver.cfg.model_copy(update={"evaluate": parse_config(EvaluateConfig, settings, "evaluate")})
    return solver


def test_it_is_that_of_the_decoded_clips_against_their_recordings(folder: Path, tmp_path: Path) -> None:
    solver = solver_of(folder, tmp_path, originals=str(folder / "audio"))
    found = solver.run_stage("evaluate")
    mel, ratio = [], []
    for index in range(3):
        clip: Any = solver.sources["evaluate"][index]
        name, _, start = clip.id.partition("@")
        audio = torch.from_numpy(read_audio(folder / "audio" / name, sample_rate=CODEC.sample_rate, num_channels=1))
        first = round(float(start or 0) * CODEC.sample_rate)
        length = CODEC.sample_rate // 2
        original, decoded = audio[:, first : first + length], CODEC.decode(clip)[:, :length]
        mel.append(float(batch_mel_distance_db(decoded[None], original[None], CODEC.sample_rate)))
        ratio.append(float(si_sdr(decoded[0], original[0])))
    assert found["codec_mel_db"] == pytest.approx(np.mean(mel), rel=1e-6)
    assert found["codec_si_sdr_db"] == pytest.approx(np.mean(ratio), rel=1e-6)
    assert found["codec_mel_db"] > 0.01, "6 bits are heard"
    assert solver.run_stage("evaluate") == found


def test_without_the_recordings_it_is_said_to_be_unknown(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = solver_of(folder, tmp_path).run_stage("evaluate")
    assert "bits_per_second" in found and not any(name.startswith("codec") for name in found)
    assert "unknown" in caplog.text and "evaluate.originals" in caplog.text


def test_the_wrong_place_is_refused_before_training(folder: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    soundfile.write(wrong / "a.wav", np.zeros(100), test_sashimi.RATE)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"originals": str(wrong)}, "found none of 3 clips"),
        ({"originals": str(folder / "audio"), "metrics": None}, "bits"),
    ]
    for changes, words in cases:
        solver = solver_of(folder, tmp_path / "run", **changes)
        with pytest.raises(ConfigError, match=words):
            solver.run()
        assert solver.history == []


def test_latents_are_compared_as_their_bits_are_counted(tmp_path: Path) -> None:
    data = test_flow.store_latents(tmp_path / "latents.solfa")
    solver = test_flow.solver_of(tmp_path / "run", test_flow.flow_values(data))
    array = solver.sources["train"][0].array
    rounded = solver.as_counted(array)
    steps = solver.network.normalised(torch.from_numpy(rounded.astype(np.float32))[None]) / 0.125
    assert rounded.dtype == array.dtype and not np.array_equal(rounded, array)
    # Latents are stored in half precision, 2^-11 of their size: less than a tenth of a step for those up to 20 steps.
    near = steps.abs() < 20
    assert (steps - steps.round()).abs()[near].max() < 0.1
