"""Codecs made for speech: in time with the original by their loudness, at the rates that they say, on speech alone."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.quality.competitors import Opus
from benchmarks.quality.speech_codecs import Codec2, Lyra, in_time_by_loudness, is_for, lyra_systems
from solfa.errors import ConfigError

BURSTS = np.repeat(np.random.default_rng(0).uniform(0, 1, 48), 1_000)


def noise(seed: int) -> np.ndarray:
    """Noise whose loudness is the same for every seed, and whose waveform is not."""
    return (0.3 * BURSTS * np.random.default_rng(seed).standard_normal(48_000)).astype(np.float32)


def test_a_late_sound_without_its_waveform_is_brought_in_time() -> None:
    late = np.concatenate([np.zeros(2_000, np.float32), noise(1)])
    rendition = in_time_by_loudness(late, 48_000, noise(2), 1.3)
    assert abs(rendition.lag_samples - 2_000) < 100
    assert len(rendition.audio) == 48_000 and rendition.kbit_per_second == 1.3


def test_they_are_measured_on_speech_alone() -> None:
    for system in (Codec2(1300), Lyra(Path(), 16)):
        assert is_for(system, "speech") and not is_for(system, "music")
    assert is_for(Opus(9), "music")


def test_lyra_has_three_rates_and_names_the_file_that_is_missing(tmp_path: Path) -> None:
    assert lyra_systems(None) == []
    (tmp_path / "soundstream_encoder.tflite").touch()
    with pytest.raises(ConfigError, match=r"found no quantizer\.tflite"):
        lyra_systems(tmp_path)
    for name in ("quantizer.tflite", "lyragan.tflite"):
        (tmp_path / name).touch()
    assert [system.kbit for system in lyra_systems(tmp_path)] == pytest.approx([3.2, 6.0, 9.2])


@pytest.mark.skipif(not shutil.which("c2enc"), reason="codec2 is not installed")
def test_codec2_gives_back_as_much_sound_as_it_got() -> None:
    rendition = Codec2(1300).render(noise(3))
    assert len(rendition.audio) == 48_000 and np.abs(rendition.audio).max() > 0.01
