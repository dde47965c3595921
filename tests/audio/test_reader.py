"""Reading spans: the same samples as decoding everything, whatever the format and wherever the span lies."""

import io
from itertools import pairwise

import numpy as np
import pytest
import soundfile
import soxr
from hostile import encoded, tone, variable_mp3, without_xing

from solfa.audio.probe import probe, probe_audio
from solfa.audio.reader import read_audio, read_span
from solfa.audio.recording import Location
from solfa.audio.resampler import resampled_span
from solfa.errors import AudioError, ConfigError

SECONDS = 6
OPUS = {"format": "OGG", "subtype": "OPUS"}


def place(folder, content, name="x.wav"):
    path = folder / name
    path.write_bytes(content)
    return Location(path, format_hint=path.suffix)


def exact_cases():
    rate = 44100
    stereo = tone(SECONDS * rate + 123, 2, rate)
    return {
        "wav16": (encoded(stereo, rate, subtype="PCM_16"), 0),
        "wav8": (encoded(stereo, rate, subtype="PCM_U8"), 0),
        "wav24": (encoded(stereo, rate, subtype="PCM_24"), 0),
        "wav32": (encoded(stereo, rate, subtype="PCM_32"), 0),
        "wav_double": (encoded(stereo, rate, subtype="DOUBLE"), 0),
        "wav_adpcm": (encoded(stereo, rate, subtype="IMA_ADPCM"), 0),
        "aiff": (encoded(stereo, rate, format="AIFF"), 0),
        "flac": (encoded(stereo, rate, format="FLAC"), 0),
        "vorbis": (encoded(stereo, rate, format="OGG"), 0),
        "vorbis_of_silence_then_sound": (encoded(np.pad(tone(3000), ((90_000, 0), (0, 0))), format="OGG"), 0),
        "opus": (encoded(tone(SECONDS * 48000 + 77, 2, 48000), 48000, **OPUS), 0),
        "mp3_stereo": (encoded(stereo, rate, format="MP3", bitrate_mode="CONSTANT"), 2e-7),
        # The lowest bit rates borrow most from the frames before.
        "mp3_low": (encoded(tone(SECONDS * 16000), 16000, format="MP3", bitrate_mode="VARIABLE"), 2e-7),
        "mp3_without_length": (without_xing(variable_mp3(SECONDS * 16000)), 2e-7),
    }


CASES = exact_cases()


@pytest.mark.parametrize("case", CASES)
def test_any_span_equals_the_whole_decoded(tmp_path, case):
    content, tolerance = CASES[case]
    location = place(tmp_path, content)
    info = probe(location)
    whole = read_span(location, info, 0, info.num_samples, info.sample_rate, info.num_channels)
    assert whole.shape == (info.num_channels, info.num_samples) and whole.dtype == np.float32
    if not case.startswith("mp3_without"):
        reference = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)[0].T
        assert np.abs(whole - reference).max() <= tolerance
    rng = np.random.default_rng(0)
    starts = [0, 1, *rng.integers(0, info.num_samples, 10), *(info.num_samples - rng.integers(1, 4000, 10))]
    for start in map(int, starts):
        stop = min(info.num_samples, start + int(rng.integers(1, 5000)))
        span = read_span(location, info, start, stop, info.sample_rate, info.num_channels)
        assert np.abs(span - whole[:, start:stop]).max() <= tolerance


def test_every_link_of_a_chained_ogg_is_read(tmp_path):
    parts = [tone(30_011), tone(20_013) * 0.5, tone(9_001)]
    for options in ({"format": "OGG"}, OPUS):
        links = [encoded(part, **options) for part in parts]
        location = place(tmp_path, b"".join(links))
        expected = np.concatenate([soundfile.read(io.BytesIO(link), dtype="float32")[0] for link in links])
        info = probe(location)
        assert info.num_samples == len(expected) == sum(map(len, parts))
        for start, stop in ((0, len(expected)), (29_000, 51_000), (30_011, 30_012), (50_100, len(expected))):
            assert np.array_equal(read_span(location, info, start, stop, 16000, 1)[0], expected[start:stop])


def test_mp3_of_variable_rate_without_a_length_is_read_to_its_end(tmp_path):
    mp3 = variable_mp3(5 * 16000)
    complete = place(tmp_path, mp3, "complete.mp3")
    bare = place(tmp_path, without_xing(mp3), "bare.mp3")
    expected = read_span(complete, probe(complete), 0, 5 * 16000, 16000, 2)
    info = probe(bare)
    found = read_span(bare, info, 0, info.num_samples, 16000, 2)
    # The encoder's own delay of 576 samples is in no header now, so it stays.
    assert np.abs(found[:, 576 : 576 + 5 * 16000] - expected).max() < 2e-7


def test_mp3_files_joined_end_to_end_are_read_to_the_end(tmp_path):
    mp3 = variable_mp3(3 * 16000)
    location = place(tmp_path, mp3 + mp3, "joined.mp3")
    info = probe(location)
    assert 6 * 16000 < info.num_samples < 6 * 16000 + 6000
    last_second = read_span(location, info, info.num_samples - 16000, info.num_samples, 16000, 2)
    assert np.abs(last_second).max() > 0.3


@pytest.mark.parametrize(
    ("source_rate", "sample_rate"), [(44100, 32000), (48000, 24000), (22050, 44100), (192000, 8000), (44100, 16000)]
)
def test_consecutive_spans_joined_equal_the_whole_file_resampled(tmp_path, source_rate, sample_rate):
    audio = tone(2 * source_rate + 33, 2, source_rate)
    location = place(tmp_path, encoded(audio, source_rate, subtype="FLOAT"))
    info = probe(location)
    expected = soxr.resample(audio, source_rate, sample_rate, quality="VHQ").T
    cuts = [0, 1 + source_rate // 7, source_rate - 1, 2 * source_rate + 1 - 500, info.num_samples]
    spans = [read_span(location, info, a, b, sample_rate, 2) for a, b in pairwise(cuts)]
    for span, a, b in zip(spans, cuts, cuts[1:], strict=False):
        first, last = resampled_span(a, b, source_rate, sample_rate)
        assert span.shape == (2, last - first)
    joined = np.concatenate(spans, axis=1)
    common = min(joined.shape[1], expected.shape[1])
    assert abs(joined.shape[1] - expected.shape[1]) <= 1
    assert np.abs(joined[:, :common] - expected[:, :common]).max() < 3e-7


def test_samples_are_neither_clamped_nor_normalised(tmp_path):
    audio = np.array([[0.0], [4.0], [-7.5], [1e-40], [-0.0]], np.float32)
    location = place(tmp_path, encoded(audio, subtype="FLOAT"))
    found = read_span(location, probe(location), 0, 5, 16000, 1)
    assert found.tobytes() == audio.T.tobytes()


def test_eight_channels_become_their_mean_twice(tmp_path):
    audio = tone(500, 8)
    location = place(tmp_path, encoded(audio, subtype="FLOAT"))
    found = read_span(location, probe(location), 100, 200, 16000, 2)
    assert np.allclose(found, audio[100:200].mean(axis=1), atol=1e-7)
    assert np.array_equal(found[0], found[1])


def test_one_sample_can_be_downsampled(tmp_path):
    location = place(tmp_path, encoded(tone(1), 192000))
    assert read_span(location, probe(location), 0, 1, 8000, 2).shape == (2, 1)


def test_only_the_span_is_decoded(tmp_path):
    audio = tone(3 * 16000)
    audio[40_000] = np.nan
    location = place(tmp_path, encoded(audio, subtype="FLOAT"))
    info = probe(location)
    assert read_span(location, info, 0, 30_000, 24000, 1).shape == (1, 45_000)
    with pytest.raises(AudioError, match=r"40,000\b.*finite"):
        read_span(location, info, 30_000, 48_000, 24000, 1)
    # The filter reaches over the joint: a span that ends just before the damage is damaged, too.
    with pytest.raises(AudioError, match="finite"):
        read_span(location, info, 30_000, 39_999, 24000, 1)


def test_truncated_file_gives_its_beginning_and_a_reason_for_the_rest(tmp_path):
    content = encoded(tone(48_000), subtype="PCM_16")
    location = place(tmp_path, content[: 44 + 2 * 20_000])
    info = probe(location)
    assert info.num_samples == 48_000
    assert read_span(location, info, 0, 20_000, 16000, 1).shape == (1, 20_000)
    with pytest.raises(AudioError, match=r"truncated: .*48,000.* found 20,000"):
        read_span(location, info, 16_000, 32_000, 16000, 1)
    with pytest.raises(AudioError, match="truncated"):
        read_span(location, info, 40_000, 48_000, 16000, 1)


def test_span_outside_the_recording_is_the_callers_fault(tmp_path):
    location = place(tmp_path, encoded(tone(10)))
    for start, stop in ((-1, 5), (5, 5), (0, 11)):
        with pytest.raises(ValueError, match="not within"):
            read_span(location, probe(location), start, stop, 16000, 1)


def test_byte_range_of_a_larger_file_reads_like_a_file(tmp_path):
    for options in ({"format": "WAV"}, {"format": "FLAC"}, {"format": "OGG"}, {"format": "MP3"}):
        content = encoded(tone(20_000), **options)
        whole = place(tmp_path, content, "whole.bin")
        inside = place(tmp_path, b"x" * 777 + content + b"y" * 999, "outer.bin")
        member = Location(inside.path, 777, len(content), ".wav")
        assert probe(member) == probe(whole)
        info = probe(member)
        expected = read_span(whole, info, 5_000, 15_000, 24000, 1)
        assert np.array_equal(read_span(member, info, 5_000, 15_000, 24000, 1), expected)


def write_with_av(path, codec, rate, options=None, title=None):
    av = pytest.importorskip("av")
    audio = tone(5 * rate + 77, 2, rate).T
    with av.open(str(path), "w") as container:
        container.metadata.update({"title": title} if title else {})
        stream = container.add_stream(codec, rate=rate, layout="stereo", options=options or {})
        for start in range(0, audio.shape[1], 1024):
            block = np.ascontiguousarray(audio[:, start : start + 1024])
            frame = av.AudioFrame.from_ndarray(block, format="fltp", layout="stereo")
            frame.sample_rate, frame.pts = rate, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return audio


@pytest.mark.parametrize(
    ("name", "codec", "rate", "options"),
    [
        ("x.m4a", "aac", 44100, {"aac_pns": "0"}),
        ("x.aac", "aac", 44100, {"aac_pns": "0"}),
        ("x.webm", "libopus", 48000, None),
    ],
)
def test_containers_of_the_av_extra_read_like_the_rest(tmp_path, name, codec, rate, options):
    audio = write_with_av(tmp_path / name, codec, rate, options)
    location = Location(tmp_path / name, format_hint=(tmp_path / name).suffix)
    info = probe(location)
    assert info[:2] == (rate, 2)
    assert audio.shape[1] <= info.num_samples < audio.shape[1] + 3 * 1024
    whole = read_span(location, info, 0, info.num_samples, rate, 2)
    delay = 0 if name != "x.aac" else 1024
    middle = slice(rate, 3 * rate)
    assert np.corrcoef(whole[0, delay:][middle], audio[0][middle])[0, 1] > 0.98
    for start in (0, 100, rate, 3 * rate + 1, info.num_samples - 500):
        stop = min(start + 3000, info.num_samples)
        assert np.array_equal(read_span(location, info, start, stop, rate, 2), whole[:, start:stop])


def test_tags_that_are_not_utf_8_are_no_fault_of_the_sound(tmp_path):
    write_with_av(tmp_path / "x.webm", "libopus", 48000, title="Any title")
    content = (tmp_path / "x.webm").read_bytes()
    assert b"Any title" in content
    tagged = place(tmp_path, content.replace(b"Any title", b"\xff\xfe\xe9 title"), "tagged.webm")
    whole = Location(tmp_path / "x.webm", format_hint=".webm")
    assert probe(tagged) == probe(whole)
    assert np.array_equal(
        read_span(tagged, probe(tagged), 0, 9_000, 48000, 2), read_span(whole, probe(whole), 0, 9_000, 48000, 2)
    )


def test_a_file_is_read_by_its_path_whole_or_in_part(tmp_path):
    location = place(tmp_path, encoded(tone(16_000, 2, 16_000), 16_000))
    info = probe_audio(str(location.path))
    assert info == probe(location)
    whole = read_audio(str(location.path))
    assert np.array_equal(whole, read_span(location, info, 0, info.num_samples, info.sample_rate, info.num_channels))
    part = read_audio(location.path, sample_rate=8_000, num_channels=1, start_seconds=0.25, seconds=0.5)
    assert np.array_equal(part, read_span(location, info, 4_000, 12_000, 8_000, 1))
    assert read_audio(location.path, start_seconds=0.75, seconds=9.0).shape == (2, 4_000)


@pytest.mark.parametrize("span", [{"start_seconds": 1.0}, {"start_seconds": -0.1}, {"seconds": -1.0}])
def test_a_span_outside_of_a_file_is_refused(tmp_path, span):
    location = place(tmp_path, encoded(tone(16_000), 16_000))
    with pytest.raises(ConfigError, match="expected a span within"):
        read_audio(location.path, **span)


def test_a_file_that_is_not_there_or_no_audio_is_named(tmp_path):
    (tmp_path / "words.wav").write_text("not samples")
    for name in ("missing.wav", "words.wav"):
        with pytest.raises(AudioError, match=name):
            probe_audio(tmp_path / name)
        with pytest.raises(AudioError, match=name):
            read_audio(tmp_path / name)
