"""The quality report measures what it says: fixed clips, exact alignment, honest bit rates, cached numbers."""

import json
import math
import re
import shutil
import struct
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import soundfile
import torch

from benchmarks.quality.clips import Clip, Row, choose_clips, excerpt_starts, read_excerpt, read_table, spread
from benchmarks.quality.competitors import (
    Backwards,
    BandLimit,
    Mp3,
    Opus,
    codec_systems,
    mp3_kbit_per_second,
    mulaw_systems,
    opus_kbit_per_second,
)
from benchmarks.quality.measuring import Measurement, measure_all, system_keys
from benchmarks.quality.metrics import Scores, find_lag, fit_length, resample, score, shift, versions
from benchmarks.quality.page import listening_clips, renditions, write_page
from benchmarks.quality.summary import bootstrap_interval, markdown, summarise, write_tables
from solfa.audio.decoders.byte_range import open_range
from solfa.audio.decoders.mpeg import xing_frame
from solfa.audio.recording import Location
from solfa.errors import ConfigError
from solfa.ops.audio_metrics import si_sdr

SCRIPT = Path(__file__).parents[2] / "benchmarks/codec_quality.py"
needs_opus = pytest.mark.skipif(not shutil.which("opusenc"), reason="opus-tools is not installed")
needs_lame = pytest.mark.skipif(not shutil.which("lame"), reason="lame is not installed")


def noisy_tone(seconds: float, sample_rate: int = 48_000, seed: int = 0) -> np.ndarray:
    """A gliding tone whose loudness changes: it correlates with itself at one lag only."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(seconds * sample_rate)) / sample_rate
    tone = np.sin(2 * np.pi * (200 + 150 * time) * time) * (0.3 + 0.2 * np.sin(7 * time))
    return (tone + 0.01 * rng.standard_normal(len(time))).astype(np.float32)


def write_table(folder: Path, recordings: dict[str, float], kind: str = "music", name: str = "held-out") -> Path:
    """Write a recording of each length below its package's folder, and the table of all."""
    lines = ["path,kind,package"]
    for number, (path, seconds) in enumerate(recordings.items()):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / path, noisy_tone(seconds, 16_000, number), 16_000)
        lines.append(f"{path},{kind},{Path(path).parent}")
    table = folder / f"{name}.csv"
    table.write_text("\n".join(lines) + "\n")
    return table


def some_clip(table: str = "held-out", kind: str = "music", path: str = "a.wav", start: float = 0.0) -> Clip:
    return Clip(Row(table, kind, "package", Path(path)), start, 1.0, f"{table}{kind}{path}{start}")


def measured(clip: Clip, system: str, visqol: float, pesq: float | None = None) -> Measurement:
    return Measurement(clip, system, system.split()[0], 6.0, 0, Scores(visqol, 1.0, 2.0, pesq, pesq and pesq / 5))


# Clips


def test_excerpts_lie_within_the_recording_and_do_not_overlap():
    assert excerpt_starts(30.0, 10.0, 1) == [10.0]
    assert excerpt_starts(4.0, 10.0, 3) == [0.0]
    starts = excerpt_starts(45.0, 10.0, 9)
    assert len(starts) == 4 and starts[0] >= 0 and starts[-1] + 10 <= 45
    assert all(later - earlier >= 10 for earlier, later in pairwise(starts))


def test_spread_takes_all_of_few_and_the_middle_of_many():
    assert spread("abc", 5) == ["a", "b", "c"]
    assert spread(range(9), 1) == [4]
    assert spread(range(10), 5) == [1, 3, 5, 7, 9]


def test_the_clips_are_the_same_in_any_order_of_rows_and_short_and_silent_ones_are_left_out(tmp_path):
    table = write_table(tmp_path, {f"drums/{number}.wav": 1.2 for number in range(4)} | {"drums/short.wav": 0.5})
    soundfile.write(tmp_path / "drums/silent.wav", np.zeros(32_000), 16_000)
    table.write_text(table.read_text() + "drums/silent.wav,music,drums\n")
    rows = read_table(table)
    clips = choose_clips(rows, 9, 1, 10.0)
    assert clips == choose_clips(rows[::-1], 9, 1, 10.0)
    assert [clip.row.path.name for clip in clips] == [f"{number}.wav" for number in range(4)]
    assert len({clip.digest for clip in clips}) == 4
    assert len(choose_clips(rows, 2, 1, 10.0)) == 2


def test_more_excerpts_are_taken_only_where_recordings_are_few(tmp_path):
    few = write_table(tmp_path / "few", {"band/a.wav": 9.0, "band/b.wav": 9.0})
    many = write_table(tmp_path / "many", {f"band/{number}.wav": 9.0 for number in range(4)})
    assert [clip.row.path.stem for clip in choose_clips(read_table(few), 4, 3, 2.0)] == ["a", "a", "b", "b"]
    assert [clip.row.path.stem for clip in choose_clips(read_table(many), 4, 3, 2.0)] == ["0", "1", "2", "3"]


def test_an_excerpt_is_mono_at_48_khz_and_never_over_full_scale(tmp_path):
    stereo = np.stack([1.5 * noisy_tone(3.0, 24_000), 3.0 * noisy_tone(3.0, 24_000)], axis=1)
    soundfile.write(tmp_path / "loud.wav", stereo, 24_000, subtype="FLOAT")
    audio = read_excerpt(Clip(Row("t", "music", "p", tmp_path / "loud.wav"), 1.0, 1.0))
    assert audio.shape == (48_000,) and np.abs(audio).max() == pytest.approx(1.0)
    expected = resample(noisy_tone(3.0, 24_000), 24_000, 48_000)[48_000:96_000]
    assert np.corrcoef(audio, expected)[0, 1] > 0.9999


@pytest.mark.parametrize(
    ("line", "found"),
    [("a.wav,noise,p", "line 3: kind: expected one of music, speech, effects, found 'noise'"), (",music,p", "no path")],
)
def test_a_fault_in_a_table_is_named_with_its_line(tmp_path, line, found):
    table = tmp_path / "table.csv"
    table.write_text(f"path,kind,package\nb.wav,music,p\n{line}\n")
    with pytest.raises(ConfigError, match=re.escape(found)):
        read_table(table)


# Alignment and metrics


@pytest.mark.parametrize("lag", [-700, -1, 0, 1, 6630])
def test_a_lag_is_found_and_undone(lag):
    reference = noisy_tone(1.0)
    late = 0.4 * np.pad(reference, (lag, 0)) if lag >= 0 else 0.4 * reference[-lag:]
    noise = 0.05 * np.random.default_rng(1).standard_normal(len(late)).astype(np.float32)
    assert find_lag(late + noise, reference, 12_000) == lag
    aligned = shift(late, lag, len(reference))
    overlap = slice(max(0, -lag), None)
    assert len(aligned) == len(reference)
    np.testing.assert_allclose(aligned[overlap], 0.4 * reference[overlap], atol=1e-7)


def test_resampling_covers_the_same_time():
    assert len(resample(noisy_tone(1.0), 48_000, 11_025)) == 11_025
    assert len(resample(np.ones(7, np.float32), 48_000, 16_000)) == 3
    assert fit_length(np.ones(3, np.float32), 5).tolist() == [1, 1, 1, 0, 0]


def test_visqol_hears_a_narrow_band_and_speech_gets_its_own_measures():
    for name in ("visqol", "pesq", "pystoi"):
        pytest.importorskip(name)
    time = np.arange(48_000) / 48_000
    reference = 0.2 * np.random.default_rng(0).standard_normal(48_000) * np.exp(-8 * (time % 0.25))
    reference = reference.astype(np.float32)
    same = score(reference, reference, 48_000, is_speech=False)
    assert same.visqol > 4.7 and same.si_sdr_db == 100.0 and same.mel_db == 0.0
    assert same.pesq is None and same.stoi is None
    narrow = score(reference, resample(reference, 48_000, 8_000), 8_000, is_speech=True)
    assert narrow.visqol < 2.5 and narrow.si_sdr_db < 0.0 and narrow.mel_db > 3.0
    assert narrow.pesq is not None and narrow.pesq < 4.0
    assert narrow.stoi is not None and narrow.stoi > 0.9, "all that STOI looks at lies below 4.3 kHz"
    assert score(reference, np.zeros_like(reference), 48_000, is_speech=False).visqol == 1.0


# Systems


def ogg_page(granule: int, packets: list[bytes], serial: int = 1) -> bytes:
    """A page by RFC 3533, of packets below 255 bytes."""
    head = struct.pack("<4sBBqIII", b"OggS", 0, 0, granule, serial, 0, 0)
    return head + bytes([len(packets), *map(len, packets)]) + b"".join(packets)


def test_the_rate_of_opus_counts_packets_and_neither_pages_nor_headers(tmp_path):
    pages = [ogg_page(0, [b"OpusHead" + bytes(11)]), ogg_page(0, [b"OpusTags" + bytes(200)])]
    pages += [ogg_page(24_000, [bytes(15)] * 25), ogg_page(48_000, [bytes(15)] * 25)]
    (tmp_path / "a.opus").write_bytes(b"".join(pages))
    with open_range(Location(tmp_path / "a.opus")) as file:
        assert opus_kbit_per_second(file) == pytest.approx(8 * 50 * 15 / 1000)


def test_the_rate_of_mp3_counts_frames_and_not_the_header_of_lame(tmp_path):
    # MPEG 2 layer III, 8 kbit/s, 24 kHz, mono: 72 * 8000 / 24000 = 24 bytes a frame.
    header = bytes([0xFF, 0xF3, 0x14, 0xC0])
    frames = header + bytes(20)
    (tmp_path / "a.mp3").write_bytes(xing_frame(header, 40, 40 * 24) + 40 * frames)
    with open_range(Location(tmp_path / "a.mp3")) as file:
        assert mp3_kbit_per_second(file) == pytest.approx(8.0)


def fidelity(reference: np.ndarray, audio: np.ndarray, sample_rate: int) -> float:
    decoded = fit_length(resample(audio, sample_rate, 48_000), len(reference))
    return float(si_sdr(torch.from_numpy(decoded), torch.from_numpy(reference)))


@needs_opus
def test_opus_is_in_time_and_more_bits_sound_better():
    reference = noisy_tone(2.0)
    low, high = Opus(6).render(reference), Opus(64).render(reference)
    assert len(low.audio) == len(high.audio) == len(reference)
    assert 3 < low.kbit_per_second < 12 < high.kbit_per_second
    assert 3 < fidelity(reference, low.audio, 48_000) < fidelity(reference, high.audio, 48_000)


@needs_lame
@pytest.mark.parametrize("kbit", [8, 32])
def test_mp3_is_in_time_at_every_sample_rate_that_lame_chooses(kbit):
    reference = noisy_tone(2.0)
    rendition = Mp3(kbit).render(reference)
    assert rendition.kbit_per_second == pytest.approx(kbit, rel=0.02)
    assert rendition.lag_samples > 2000, "libsndfile took the delay away itself: the test would prove nothing"
    assert fidelity(reference, rendition.audio, rendition.sample_rate) > 10


def test_a_missing_program_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match=r"opusenc .*opus-tools"):
        Opus(6).identity()


def test_a_missing_package_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ConfigError, match=r"visqol-python.*pip install 'solfa"):
        versions()


def test_codecs_run_at_their_own_rate_and_state_the_bits_of_their_codes():
    reference = noisy_tone(0.5)
    rates = [system.render(reference).kbit_per_second for system in mulaw_systems()]
    assert rates == [64.0, 128.0, 192.0]
    best = mulaw_systems()[-1].render(reference)
    assert best.sample_rate == 24_000 and fidelity(reference, best.audio, 24_000) > 20


def test_the_limit_and_the_control_have_no_bits_and_what_they_do_is_what_they_say():
    reference = noisy_tone(0.5)
    limit, control = BandLimit(24_000).render(reference), Backwards(24_000).render(reference)
    assert limit.kbit_per_second is control.kbit_per_second is None
    assert fidelity(reference, limit.audio, 24_000) > 15 > 0 > fidelity(reference, control.audio, 24_000)
    assert np.array_equal(control.audio[::-1], limit.audio)


def test_codecs_of_one_name_go_by_their_specs():
    specs = ["mulaw:sample_rate=8000", "mulaw:sample_rate=16000"]
    assert [system.name for system in codec_systems(specs, [])] == specs
    assert [system.name for system in codec_systems(specs[:1], [])] == ["mulaw"]


# The cache


def test_a_second_run_computes_only_what_is_new(tmp_path):
    table = write_table(tmp_path, {"p/a.wav": 1.0, "p/b.wav": 1.0})
    clips = choose_clips(read_table(table), 2, 1, 1.0)
    computed: list[tuple[str, str]] = []

    def compare(clip, system):
        computed.append((clip.row.path.stem, system.name))
        reference = read_excerpt(clip)
        rendition = system.render(reference)
        level = fidelity(reference, rendition.audio, rendition.sample_rate)
        scores = Scores(1.0, level, 0.0).as_dict()
        return {"scores": scores, "kbit_per_second": rendition.kbit_per_second, "lag_samples": 0}

    def run(systems, packages):
        computed.clear()
        keys = system_keys(systems, packages)
        return measure_all(clips, systems, keys, tmp_path / "out", lambda done, total: None, compute=compare)

    mulaw = mulaw_systems()
    first = run(mulaw[:1], {"visqol": "1"})
    assert computed == [("a", mulaw[0].name), ("b", mulaw[0].name)]
    both = run(mulaw[:2], {"visqol": "1"})
    assert computed == [("a", mulaw[1].name), ("b", mulaw[1].name)]
    assert [each for each in both if each.system == mulaw[0].name] == first
    assert math.isclose(both[1].kbit_per_second or 0, 128.0)
    run(mulaw[:1], {"visqol": "2"})
    assert len(computed) == 2, "another version of a package that measures makes old numbers void"


# The report


def test_the_interval_does_not_narrow_when_a_recording_is_counted_twice():
    values = np.random.default_rng(0).normal(3.0, 0.5, 10).tolist()
    low, high = bootstrap_interval([[value] for value in values])
    assert low < np.mean(values) < high
    assert bootstrap_interval([[value] * 4 for value in values]) == pytest.approx((low, high))
    narrow = bootstrap_interval([[value] for value in values * 4])
    assert narrow[1] - narrow[0] < 0.7 * (high - low)


def test_means_are_taken_per_table_and_kind_over_what_applies():
    speech = [some_clip(kind="speech", path=f"{number}.wav") for number in range(2)]
    music = some_clip()
    groups = summarise(
        [
            measured(music, "Opus 6", 2.0),
            measured(speech[0], "Opus 6", 3.0, pesq=2.0),
            measured(speech[1], "Opus 6", 4.0, pesq=None),
        ]
    )
    assert [(group.kind, group.num_clips) for group in groups] == [("music", 1), ("speech", 2)]
    assert groups[1].lines[0].means["visqol"] == 3.5 and groups[1].lines[0].means["pesq"] == 2.0
    text = markdown(groups, {"pesq": "0.0.4"})
    first, second = text.split("## ")[1:]
    assert "PESQ" not in first and "PESQ" in second
    assert "| Opus 6 | 6.0 | 3.50 [3.00, 4.00] | 1.0 | 2.00 | 2.00 | 0.400 |" in second


def test_the_page_plays_every_system_and_loads_nothing(tmp_path):
    table = write_table(tmp_path, {"p/<a>.wav": 1.0, "p/b.wav": 1.0})
    clips = choose_clips(read_table(table), 2, 1, 1.0)
    systems = [BandLimit(24_000), *mulaw_systems()[:1]]
    measurements = [measured(clip, system.name, 3.0) for clip in clips for system in systems]
    groups = summarise(measurements)
    heard = [(clip, renditions(clip, systems, 0.5)) for clip in listening_clips(clips, 1)]
    write_tables(measurements, groups, {"visqol-python": "3"}, tmp_path)
    write_page(groups, measurements, heard, tmp_path)
    html = (tmp_path / "index.html").read_text()
    assert html.count("<audio") == 3 and html.count("data:audio/flac") == 3
    assert not re.search(r'(src|href)="(?!data:)', html) and "<a>" not in html
    assert "ViSQOL 3.00" in html and "mu-law 8 kHz" in html
    for name in ("visqol.svg", "spectrograms.svg"):
        words = " ".join(ElementTree.parse(tmp_path / name).getroot().itertext())
        assert "held-out" in words or "mu-law 8 kHz" in words
    rows = json.loads((tmp_path / "results.json").read_text())["results"]
    assert len(rows) == len((tmp_path / "results.csv").read_text().splitlines()) - 1 == 4


def test_the_command_answers_a_missing_table_with_one_sentence(tmp_path):
    pytest.importorskip("visqol")
    command = [sys.executable, SCRIPT, str(tmp_path / "none.csv"), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "none.csv: no such table" in done.stderr and "Traceback" not in done.stderr


def test_the_command_measures_only_the_kind_of_sound_that_is_asked_for(tmp_path):
    pytest.importorskip("visqol")
    music = write_table(tmp_path, {"p/a.wav": 1.0}, "music", "held-out")
    effects = write_table(tmp_path, {"p/b.wav": 1.0}, "effects", "unseen")
    command = [sys.executable, SCRIPT, str(music), str(effects), "--kind", "effects", "--out", str(tmp_path / "out")]
    subprocess.run(command, capture_output=True, check=True)
    rows = json.loads((tmp_path / "out/results.json").read_text())["results"]
    assert {(row["table"], row["kind"]) for row in rows} == {("unseen", "effects")}
