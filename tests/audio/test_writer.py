"""Writing audio."""

import numpy as np
import pytest
from hostile import tone

from solfa.audio.probe import probe
from solfa.audio.reader import read_span
from solfa.audio.recording import Location
from solfa.audio.writer import write_audio
from solfa.errors import ConfigError

AUDIO = np.ascontiguousarray(tone(8000, 2).T)


@pytest.mark.parametrize(
    ("name", "options", "tolerance"),
    [
        ("x.wav", {}, 0.0),
        ("x.wav", {"wav_subtype": "PCM_16"}, 2**-15),
        ("x.FLAC", {}, 2**-23),
        ("x.ogg", {}, 0.3),
    ],
)
def test_written_audio_reads_back(tmp_path, name, options, tolerance):
    path = tmp_path / "new" / name
    write_audio(path, AUDIO, 16000, **options)
    location = Location(path)
    info = probe(location)
    assert info[:3] == (16000, 2, 8000)
    assert np.abs(read_span(location, info, 0, 8000, 16000, 2) - AUDIO).max() <= tolerance
    assert [child.name for child in path.parent.iterdir()] == [name]


@pytest.mark.parametrize("name", ["x.wav", "x.flac"])
def test_equal_audio_makes_equal_files_whenever_it_is_written(tmp_path, name):
    write_audio(tmp_path / name, AUDIO, 16000)
    before = (tmp_path / name).read_bytes()
    assert b"PEAK" not in before, "libsndfile writes the time into this chunk"
    write_audio(tmp_path / name, AUDIO, 16000)
    assert (tmp_path / name).read_bytes() == before


def test_minutes_of_ogg_are_written_whole(tmp_path):
    write_audio(tmp_path / "x.ogg", np.tile(AUDIO, 400), 16000)
    assert probe(Location(tmp_path / "x.ogg")).num_samples == 400 * AUDIO.shape[1]


def test_unknown_extension_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(ConfigError, match=r"x\.mp3: expected .*\.wav, \.flac, \.ogg"):
        write_audio(tmp_path / "x.mp3", AUDIO, 16000)
    assert not list(tmp_path.iterdir())
