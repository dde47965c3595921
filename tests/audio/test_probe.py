"""Probing, and the hostile corpus: every file is either read completely or refused with a reason."""

import os
import sys

import numpy as np
import pytest
import soundfile
from hostile import encoded, flac_with_total, liars, make_hostile_corpus, tone

from solfa.audio.probe import RECORDINGS_PER_CHUNK, probe, probe_in_chunks
from solfa.audio.reader import read_span
from solfa.audio.recording import AudioInfo, Location, Recording
from solfa.audio.sources.choice import locate, open_source
from solfa.errors import AudioError


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    return folder, make_hostile_corpus(folder)


def outcome_of(root, recording):
    if recording.error is not None:
        return "failed", recording.error
    location = locate(root, recording.uri)
    try:
        info = probe(location)
        audio = read_span(location, info, 0, info.num_samples, 24000, 2)
    except AudioError as error:
        return "failed", str(error)
    assert audio.shape == (2, -(-info.num_samples * 24000 // info.sample_rate))
    return "ok", None


def test_every_hostile_file_ends_as_expected_with_a_printable_reason(corpus):
    folder, expected = corpus
    source = open_source(folder)
    found = {recording.key: outcome_of(source.root, recording) for recording in source.recordings()}
    assert {name: outcome for name, (outcome, _) in found.items()} == expected
    for name, (outcome, reason) in found.items():
        if outcome == "failed":
            assert reason and reason.isprintable() and len(reason) < 200, (name, reason)
            assert "Traceback" not in reason and "object at 0x" not in reason


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("192_khz.wav", AudioInfo(192000, 1, 192000, "WAV/PCM_16")),
        ("8_channels.wav", AudioInfo(16000, 8, 16000, "WAV/PCM_16")),
        ("flac_named.wav", AudioInfo(16000, 1, 16000, "FLAC/PCM_16")),
        ("riff_and_data_size_0.wav", AudioInfo(16000, 1, 16000, "WAV/PCM_16")),
        ("riff_size_max.wav", AudioInfo(16000, 1, 16000, "WAV/PCM_16")),
        ("chained.ogg", AudioInfo(16000, 1, 24000, "OGG/VORBIS")),
        ("huge_picture.mp3", AudioInfo(16000, 2, 48000, "MP3/MPEG_LAYER_III")),
    ],
)
def test_probe_tells_the_exact_length(corpus, name, expected):
    assert probe(Location(corpus[0] / name)) == expected


def test_implausible_claims_are_refused_before_memory_is_asked_for(tmp_path):
    path = tmp_path / "x.flac"
    path.write_bytes(flac_with_total(2**36 - 1))
    with pytest.raises(AudioError, match="68,719,476,735 samples"):
        probe(Location(path))


def test_implausible_rate_is_refused(tmp_path):
    path = tmp_path / "x.wav"
    path.write_bytes(encoded(tone(100), 12))
    with pytest.raises(AudioError, match="12 Hz"):
        probe(Location(path))


def test_what_is_not_a_file_is_refused_without_opening_it(tmp_path):
    os.mkfifo(tmp_path / "fifo.wav")
    for path, reason in (
        (tmp_path / "fifo.wav", "is a FIFO"),
        (tmp_path, "is a folder"),
        (tmp_path / "missing.wav", "no such file"),
    ):
        with pytest.raises(AudioError, match=reason):
            probe(Location(path))
    with pytest.raises(AudioError, match="is a device"):
        probe(Location(type(tmp_path)("/dev/zero")))


def test_huge_or_cut_tar_members_are_refused(tmp_path):
    path = tmp_path / "x.tar"
    path.write_bytes(bytes(100))
    with pytest.raises(AudioError, match="2,147,483,648"):
        probe(Location(path, 0, 2**31 + 1))
    with pytest.raises(AudioError, match="50 bytes"):
        probe(Location(path, 50, 100))


def test_container_without_pyav_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    path = tmp_path / "x.m4a"
    path.write_bytes(b"\x00\x00\x00\x20ftypM4A " + bytes(100))
    with pytest.raises(AudioError, match=r"pip install solfa\[av\]"):
        probe(Location(path, format_hint=".m4a"))


def test_recordings_are_probed_in_order_and_only_as_they_are_asked_for(tmp_path):
    (tmp_path / "a.wav").write_bytes(encoded(tone()))
    asked = []

    def recordings():
        for number in range(RECORDINGS_PER_CHUNK + 3):
            asked.append(number)
            yield Recording(f"{number}", "a.wav") if number % 2 else Recording(f"{number}", "gone.wav", error="gone")

    chunks = probe_in_chunks(tmp_path, recordings())
    first = list(next(chunks))
    assert len(first) == len(asked) == RECORDINGS_PER_CHUNK
    assert [recording.key for recording, _ in first] == [str(number) for number in range(RECORDINGS_PER_CHUNK)]
    assert first[0][1] == "gone" and isinstance(first[1][1], AudioInfo)
    assert [len(list(chunk)) for chunk in chunks] == [3]


def test_a_length_that_the_file_does_not_have_is_refused(tmp_path):
    for name, content in liars().items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(AudioError, match="header claims"):
            probe(Location(tmp_path / name))


def test_much_silence_in_few_bytes_is_believed(tmp_path):
    path = tmp_path / "silence.flac"
    soundfile.write(path, np.zeros(5_000_000, np.float32), 16000)
    assert probe(Location(path)).num_samples == 5_000_000 > 100 * path.stat().st_size
