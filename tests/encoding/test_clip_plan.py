"""The plan is pure: segments cover recordings, shards and batches cover clips, nothing depends on who does the work."""

from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solfa.audio.recording import AudioInfo, Recording
from solfa.encoding.clip_plan import (
    MAX_BATCH_CLIPS,
    MAX_SHARD_BYTES,
    SHARDS_WANTED,
    batch_bounds,
    clip_id,
    clips_of,
    segment_bounds,
    shard_bounds,
    shard_seconds,
    unprobed_clip,
)
from solfa.store.planned_clip import PlannedClip


@given(st.integers(1, 10**7), st.integers(1, 192_000), st.floats(0, 100))
def test_segments_are_consecutive_and_cover_the_whole_recording(num_samples, sample_rate, segment_seconds):
    step = max(1, round(segment_seconds * sample_rate))
    if num_samples / step > 10_000:
        return
    bounds = segment_bounds(num_samples, sample_rate, segment_seconds)
    assert bounds[0][0] == 0 and bounds[-1][1] == num_samples
    assert all(before[1] == after[0] for before, after in pairwise(bounds))
    assert all(stop > start for start, stop in bounds)
    if segment_seconds:
        assert all(stop - start <= step for start, stop in bounds)


def test_zero_seconds_keep_a_recording_whole():
    assert segment_bounds(10**9, 48_000, 0) == [(0, 10**9)]


def test_ids_say_where_a_segment_starts_and_sort_in_time():
    info = AudioInfo(16_000, 1, 16_000 * 400, "WAV")
    ids = [clip_id("a/b.wav", 16_000 * start, 16_000 * (start + 30), info) for start in range(0, 390, 30)]
    assert ids[1] == "a/b.wav@00030.000"
    assert ids == sorted(ids)
    assert clip_id("a/b.wav", 0, info.num_samples, info) == "a/b.wav"


def test_an_unreadable_recording_is_one_failed_clip_that_keeps_its_metadata():
    recording = Recording("x.wav", "x.wav", caption="noise", metadata={"k": 1})
    (clip,) = clips_of(recording, "header only", 30.0, 16_000)
    assert (clip.id, clip.error, clip.num_samples, clip.caption) == ("x.wav", "header only", 0, "noise")


def test_a_clip_has_all_that_the_source_says_of_its_recording():
    said = {"size_bytes": 7, "mtime_ns": 8, "member": "m", "member_offset": 9, "member_size": 10, "caption": "c"}
    recording = Recording("key", "uri", **said, metadata={"a": 1})
    names = {field.name for field in fields(Recording)} - {"error"}
    clip = unprobed_clip(recording)
    assert {name: getattr(clip, name) for name in names} == {name: getattr(recording, name) for name in names}


@given(st.lists(st.floats(0.01, 5_000), min_size=1, max_size=400), st.floats(1, 1e6))
def test_shards_are_consecutive_and_hold_every_clip_once(seconds, bytes_per_second):
    bounds = shard_bounds(np.array(seconds), bytes_per_second)
    assert [index for start, stop in bounds for index in range(start, stop)] == list(range(len(seconds)))
    limit = shard_seconds(sum(seconds))
    for start, stop in bounds:
        assert sum(seconds[start : stop - 1]) <= min(limit, MAX_SHARD_BYTES / bytes_per_second) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("total", "seconds"),
    [(59, 120), (60, 15), (120, 15), (600, 75), (960, 120), (7_000, 120), (64 * 500, 500), (1e9, 36_000)],
)
def test_how_much_audio_a_shard_holds_follows_from_how_much_there_is(total, seconds):
    assert shard_seconds(total) == seconds


def test_a_large_collection_becomes_about_sixty_four_shards():
    assert 60 <= len(shard_bounds(np.full(10_000, 10.0), 400.0)) <= SHARDS_WANTED


@pytest.mark.parametrize(("total", "clip"), [(120, 10), (120, 30), (600, 10), (600, 30), (300, 2.5)])
def test_two_encoders_share_a_short_job_evenly(total, clip):
    bounds = shard_bounds(np.full(round(total / clip), clip), 400.0)
    shards = [clip * (stop - start) for start, stop in bounds]
    # Each begins at its half of the shards and takes the next when it is through, as `claim_shards` does.
    halves = sum(shards[: len(shards) // 2]), sum(shards[len(shards) // 2 :])
    assert total / max(halves) >= 1.9


def _clip(num_samples: int, error: str | None = None) -> PlannedClip:
    return PlannedClip(id="c", key="c", uri="c", num_samples=num_samples, error=error)


@given(st.lists(st.sampled_from([100, 200, 300]), max_size=40), st.floats(0, 1.0))
def test_batches_hold_clips_of_one_length_and_every_clip_once(lengths, batch_seconds):
    clips = [_clip(length) for length in sorted(lengths)]
    bounds = batch_bounds(clips, batch_seconds, 1_000)
    assert [index for start, stop in bounds for index in range(start, stop)] == list(range(len(clips)))
    for start, stop in bounds:
        assert len({clip.num_samples for clip in clips[start:stop]}) == 1
        assert stop - start == 1 or sum(clip.num_samples for clip in clips[start:stop]) <= batch_seconds * 1_000


@given(st.lists(st.integers(1, 300), max_size=40), st.floats(0, 1.0))
def test_batches_of_any_lengths_hold_as_much_as_fits(lengths, batch_seconds):
    clips = [_clip(length) for length in lengths]
    bounds = batch_bounds(clips, batch_seconds, 1_000, any_lengths=True)
    assert [index for start, stop in bounds for index in range(start, stop)] == list(range(len(clips)))
    most = batch_seconds * 1_000
    for start, stop in bounds:
        total = sum(clip.num_samples for clip in clips[start:stop])
        assert stop - start == 1 or total <= most
        assert stop == len(clips) or total + clips[stop].num_samples > most


@pytest.mark.parametrize("batch_seconds", [0.0, 10.0])
def test_a_failed_clip_shares_no_batch(batch_seconds):
    clips = [_clip(100), _clip(100, "broken"), _clip(100)]
    assert batch_bounds(clips, batch_seconds, 1_000) == [(0, 1), (1, 2), (2, 3)]


def test_a_batch_of_tiny_clips_is_bounded_by_their_number():
    bounds = batch_bounds([_clip(1)] * (MAX_BATCH_CLIPS + 1), 1e6, 1_000)
    assert bounds == [(0, MAX_BATCH_CLIPS), (MAX_BATCH_CLIPS, MAX_BATCH_CLIPS + 1)]
