"""A WAV that plays while it grows."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hostile import tone

from solfa.audio.growing_wav import GrowingWav
from solfa.audio.probe import probe
from solfa.audio.reader import read_span
from solfa.audio.recording import Location
from solfa.audio.wav_header import HEADER_BYTES


@pytest.mark.parametrize("channels", [1, 2])
def test_whenever_it_is_looked_at_it_holds_all_that_was_appended(tmp_path: Path, channels: int) -> None:
    path, audio = tmp_path / "x.wav", np.ascontiguousarray(tone(700, channels).T)
    path.write_bytes(b"an older file, which is longer" * 1000)
    growing = GrowingWav(path, 16000, channels)
    assert soundfile.info(path).frames == 0
    done = 0
    for count in (256, 1, 0, 256, 187):
        growing.append(audio[:, done : done + count])
        done += count
        info = soundfile.info(path)
        assert (info.frames, info.samplerate, info.channels, info.subtype) == (done, 16000, channels, "FLOAT")
        assert np.array_equal(soundfile.read(path, dtype="float32", always_2d=True)[0].T, audio[:, :done])
    growing.close()
    location = Location(path)
    assert np.array_equal(read_span(location, probe(location), 0, 700, 16000, channels), audio)


def test_what_comes_after_the_header_is_nothing_but_samples(tmp_path: Path) -> None:
    growing = GrowingWav(tmp_path / "x.wav", 8000, 2)
    growing.append(np.array([[1, 2], [3, 4]], np.float64))
    content = (tmp_path / "x.wav").read_bytes()
    assert np.frombuffer(content[HEADER_BYTES:], "<f4").tolist() == [1, 3, 2, 4]
    growing.close()


def test_a_block_cut_short_by_a_kill_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    growing = GrowingWav(path, 8000, 1)
    growing.append(np.ones((1, 100), np.float32))
    growing.close()
    with path.open("ab") as file:  # what stands there after the samples of a block, before its header
        file.write(np.ones(30, np.float32).tobytes()[:-2])
    assert len(soundfile.read(path)[0]) == 100
    assert path.stat().st_size == HEADER_BYTES + 400 + 118


def test_a_planted_link_is_replaced_and_not_written_through(tmp_path):
    (tmp_path / "theirs").write_text("mine")
    (tmp_path / "x.partial.wav").symlink_to(tmp_path / "theirs")
    GrowingWav(tmp_path / "x.partial.wav", 8000, 1).close()
    assert (tmp_path / "theirs").read_text() == "mine" and not (tmp_path / "x.partial.wav").is_symlink()
