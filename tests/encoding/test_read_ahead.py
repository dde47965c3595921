"""Decoding ahead keeps order, bounds, and every fault of one clip within that clip."""

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from solfa.audio.probe import probe
from solfa.audio.recording import Location
from solfa.encoding.clip_plan import clips_of
from solfa.encoding.read_ahead import (
    CLIPS_AHEAD,
    CLIPS_PER_TASK,
    SECONDS_AHEAD,
    SECONDS_PER_TASK,
    DecodeAhead,
    ReadingLead,
    Target,
    decode_clip,
)
from solfa.store.planned_clip import PlannedClip
from tests.audio.hostile import flac_with_total
from tests.conftest import write_tone
from tests.encoding.deadly import DeadlyUri


def planned(path: Path, root: Path) -> PlannedClip:
    from solfa.audio.sources.choice import open_source

    (recording,) = [item for item in open_source(root).recordings() if item.uri == str(path.relative_to(root))]
    (clip,) = clips_of(recording, probe(Location(path)), 0, 16_000)
    return clip


@pytest.fixture
def clip(tmp_path):
    return planned(write_tone(tmp_path / "a.wav", 0.5), tmp_path)


def target(root):
    return Target(root, 16_000, 1)


def test_a_clip_is_read_at_the_codecs_rate(clip, tmp_path):
    audio = decode_clip(clip, target(tmp_path))
    assert isinstance(audio, np.ndarray) and audio.shape == (1, 8_000) and audio.dtype == np.float32


def test_a_file_that_changed_since_it_was_planned_is_not_read(clip, tmp_path):
    write_tone(tmp_path / "a.wav", 0.6)
    assert "changed" in decode_clip(clip, target(tmp_path))


def test_a_file_that_was_only_touched_counts_as_changed(clip, tmp_path):
    os.utime(tmp_path / "a.wav", ns=(1, 1))
    assert "changed" in decode_clip(clip, target(tmp_path))


def test_a_file_that_disappeared_is_a_reason(clip, tmp_path):
    (tmp_path / "a.wav").unlink()
    assert "disappeared" in decode_clip(clip, target(tmp_path))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_clips_come_in_order_whoever_decodes_them(tmp_path, num_workers):
    clips = [
        planned(write_tone(tmp_path / f"{index:02d}.wav", 0.1 + 0.05 * (index % 4)), tmp_path) for index in range(12)
    ]
    clips[5] = replace(clips[5], error="known to be broken")
    with DecodeAhead(target(tmp_path), num_workers) as ahead:
        results = list(ahead.decode(enumerate(clips)))
    assert [result.label for result in results] == list(range(12))
    assert [result.error for result in results].count(None) == 11
    assert results[5].error == "known to be broken"
    assert all(result.audio.shape[-1] == result.clip.num_samples for result in results if result.audio is not None)


def asked_before(ahead: DecodeAhead, clip: PlannedClip, num_taken: int) -> int:
    """Count the clips that are asked for before so many have been taken."""
    asked = 0

    def endless():
        nonlocal asked
        while True:
            asked += 1
            yield asked, clip

    results = ahead.decode(endless())
    for _ in range(num_taken):
        next(results)
    return asked


def test_decoding_runs_ahead_by_a_bounded_amount(tmp_path):
    clip = planned(write_tone(tmp_path / "a.wav", 0.1), tmp_path)
    with DecodeAhead(target(tmp_path), 0) as ahead:
        assert asked_before(ahead, clip, 1) <= CLIPS_AHEAD
        assert asked_before(ahead, replace(clip, num_samples=round(SECONDS_AHEAD * 16_000)), 1) <= 2


def test_a_slow_codec_has_one_clip_read_ahead_and_a_fast_one_many(clip, tmp_path):
    long = replace(clip, num_samples=10 * 16_000)
    lead = ReadingLead(work_ahead=0.5)
    with DecodeAhead(target(tmp_path), 0, lead=lead) as ahead:
        assert asked_before(ahead, long, 3) == 4  # how fast it is, is not known yet
        lead.add(audio_seconds=20, codec_seconds=10, wall_seconds=10)
        lead.add(audio_seconds=20, codec_seconds=2, wall_seconds=2)
        assert asked_before(ahead, long, 3) == 4
        lead.add(audio_seconds=10_000, codec_seconds=98, wall_seconds=98)  # about 100 s of audio a second
        assert asked_before(ahead, long, 3) == 3 + math.ceil(0.5 * 10_020 / 100 / 10)
        lead.add(audio_seconds=1e9, codec_seconds=1e-3, wall_seconds=1e-3)
        assert asked_before(ahead, long, 1) == math.ceil(SECONDS_AHEAD / 10)


def test_more_is_read_ahead_of_a_codec_that_had_to_wait():
    lead = ReadingLead(work_ahead=0.5)
    lead.add(audio_seconds=20, codec_seconds=1, wall_seconds=9)  # the first batch: nothing could be there yet
    for _ in range(3):
        lead.add(audio_seconds=20, codec_seconds=1, wall_seconds=1.05)
    assert lead.seconds_ahead == 10
    for seconds_ahead in (20, 40, 80, SECONDS_AHEAD, SECONDS_AHEAD):
        lead.add(audio_seconds=20, codec_seconds=1, wall_seconds=1.5)
        assert lead.seconds_ahead == seconds_ahead


def test_nothing_is_read_behind_a_clip_that_is_very_long_itself(clip, tmp_path):
    with DecodeAhead(target(tmp_path), 0) as ahead:
        assert asked_before(ahead, replace(clip, num_samples=round(SECONDS_AHEAD * 16_000)), 3) == 3
        assert asked_before(ahead, replace(clip, num_samples=round(SECONDS_AHEAD * 16_000) - 1), 3) == 4


@pytest.mark.slow
def test_a_clip_that_kills_its_decoder_costs_no_other_clip(tmp_path):
    clips = [planned(write_tone(tmp_path / f"{index}.wav", 0.05), tmp_path) for index in range(4)]
    clips[1] = replace(clips[1], uri=DeadlyUri("1.wav"))
    with DecodeAhead(target(tmp_path), 1) as ahead:
        results = list(ahead.decode(enumerate(clips)))
    assert [result.label for result in results] == list(range(4))
    assert [result.error for result in results] == [None, "its decoder crashed", None, None]
    assert all(result.audio.shape == (1, 800) for result in results if result.error is None)


def test_short_clips_are_sent_together_and_long_ones_alone(tmp_path):
    short = planned(write_tone(tmp_path / "a.wav", 0.01), tmp_path)
    long = planned(write_tone(tmp_path / "b.wav", SECONDS_PER_TASK), tmp_path)
    with DecodeAhead(target(tmp_path), 0) as ahead:
        clips = [short] * (CLIPS_PER_TASK + 3) + [long] * 2 + [short]
        tasks = list(ahead._tasks(enumerate(clips)))
    assert [len(task.clips) for task in tasks] == [CLIPS_PER_TASK, 4, 1, 1]
    assert [label for task in tasks for label, _ in task.clips] == list(range(len(clips)))
    assert all(task.num_samples == sum(clip.num_samples for _, clip in task.clips) for task in tasks)


def test_a_clip_that_does_not_fit_into_memory_is_a_failed_clip(tmp_path):
    path = tmp_path / "huge.flac"
    path.write_bytes(flac_with_total(2**36 - 1))
    found = path.stat()
    clip = PlannedClip("a", "a", path.name, found.st_size, found.st_mtime_ns, stop=2**36 - 1, num_samples=2**36 - 1)
    clip = replace(clip, source_sample_rate=16_000, source_num_channels=1, source_num_samples=2**36 - 1)
    assert isinstance(decode_clip(replace(clip, source_format="FLAC/PCM_16"), target(tmp_path)), str)
