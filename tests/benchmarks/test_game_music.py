"""The music of the benchmark of heads is the middle minute of each track, by names that stay."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from benchmarks.game_music import PACKAGES, SAMPLE_RATE, find_tracks, write_middle
from solfa.errors import ConfigError

RATE = 8_000


def store(path: Path, audio: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, audio, RATE)
    return path


def test_tracks_have_the_names_of_their_packages_and_files(tmp_path: Path) -> None:
    quiet = np.zeros(RATE // 10)
    stored = {f"{package}/theme": store(tmp_path / package / "usr/share/theme.ogg", quiet) for package in PACKAGES}
    store(tmp_path / PACKAGES[0] / "usr/share/click.wav", quiet)  # a sound, not a track
    assert find_tracks(tmp_path) == stored

    store(tmp_path / PACKAGES[0] / "usr/share/other/theme.ogg", quiet)
    with pytest.raises(ConfigError, match=f"found another {PACKAGES[0]}/theme"):
        find_tracks(tmp_path)


def test_a_package_that_is_not_there_is_named(tmp_path: Path) -> None:
    store(tmp_path / PACKAGES[0] / "theme.ogg", np.zeros(100))
    with pytest.raises(ConfigError, match=f"unpacked package {PACKAGES[1]} .*found none"):
        find_tracks(tmp_path)


def test_the_middle_minute_is_kept_and_all_of_a_shorter_track(tmp_path: Path) -> None:
    """A tone of 300 Hz in the middle minute of 80 s, of 1 kHz before and after it; both channels alike."""
    times = np.arange(80 * RATE) / RATE
    tones = np.where((times >= 10) & (times < 70), np.sin(2 * np.pi * 300 * times), np.sin(2 * np.pi * 1_000 * times))
    long = store(tmp_path / "long.ogg", 0.5 * np.stack([tones, tones], axis=1))
    short = store(tmp_path / "short.ogg", 0.5 * tones[15 * RATE : 17 * RATE])
    for track, seconds in ((long, 60), (short, 2)):
        write_middle(track, tmp_path / "out" / f"{track.stem}.wav")
        audio, rate = soundfile.read(tmp_path / "out" / f"{track.stem}.wav")
        assert rate == SAMPLE_RATE
        assert audio.shape == (seconds * SAMPLE_RATE,)
        power = np.abs(np.fft.rfft(audio * np.hanning(len(audio)))) ** 2
        assert power[np.abs(np.fft.rfftfreq(len(audio), 1 / rate) - 300) < 20].sum() > 0.98 * power.sum()
