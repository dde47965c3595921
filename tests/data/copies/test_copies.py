"""Copies are found where they are, and nothing else is; the index says what comparing every pair says."""

import json
from pathlib import Path

import numpy as np
import pytest

from solfa.data.copies import copy_search
from solfa.data.copies.copy_search import CopyFinder, CopyPair, find_copies
from solfa.data.copies.duplicate_clusters import cluster_pairs, find_duplicates
from solfa.data.copies.landmark_index import LandmarkIndex
from solfa.errors import ConfigError, StoreError
from solfa.ops.landmarks import Landmarks, find_landmarks, pack_landmarks
from solfa.store.dataset import open_dataset
from solfa.store.landmark_file import StoredLandmarks
from tests.data.copies_maker import RATE, encode_collection, write_collection
from tests.ops.test_landmarks import melody


@pytest.fixture(scope="module")
def takes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encode_collection(write_collection(tmp_path_factory.mktemp("copies") / "audio"))


def test_a_copy_and_a_loop_are_found_with_their_offsets(takes: Path) -> None:
    found = find_duplicates(takes)
    assert (found.num_clips, found.num_unknown) == (8, 0)
    loop = ["loop.wav@00000.000", "loop.wav@00006.000", "loop.wav@00012.000"]
    clusters = {tuple(sorted(member.id for member in cluster)): cluster for cluster in found.clusters}
    assert clusters.keys() == {tuple(loop), ("copy.wav", "take1.wav")}
    assert all(abs(member.start_seconds) < 0.05 for member in clusters[tuple(loop)])
    begins = {member.id: member.start_seconds for member in clusters["copy.wav", "take1.wav"]}
    assert begins["copy.wav"] - begins["take1.wav"] == pytest.approx(1.5037, abs=0.05)
    assert sum(pair.in_one_recording for pair in found.pairs) == 3
    (pair,) = [pair for pair in found.pairs if not pair.in_one_recording]
    assert 3 < pair.copy.seconds < 4.5
    assert pair.copy.is_copy
    assert json.loads(json.dumps(found.as_json()))["clusters"]


def test_copies_of_one_clip_are_those_among_all_pairs(takes: Path) -> None:
    finder = CopyFinder.of(takes)
    pairs = {frozenset((pair.id, pair.copy.id)) for pair in finder.pairs()}
    one_by_one = {frozenset((name, copy.id)) for name in finder.ids for copy in find_copies(finder, name)}
    assert one_by_one == pairs
    other = find_duplicates(takes, takes)
    assert {frozenset((pair.id, pair.copy.id)) for pair in other.pairs if pair.id != pair.copy.id} == pairs


def test_the_nearest_of_a_sound_is_the_clip_it_was_taken_from(takes: Path) -> None:
    finder = CopyFinder.of(takes)
    nearest = finder.nearest(melody(6, RATE, seed=2)[:, RATE // 3 :], RATE)
    assert nearest is not None
    assert nearest.is_copy
    assert (nearest.id, round(nearest.offset_seconds, 1)) == ("take2.wav", 0.3)
    strange = finder.nearest(melody(6, RATE, seed=77), RATE)
    assert strange is None or not strange.is_copy


def test_only_the_selected_clips_are_searched(takes: Path) -> None:
    dataset = open_dataset(takes)
    rows = [dataset.index_of(name) for name in ("take3.wav", "copy.wav")]
    chosen = CopyFinder.of(dataset.select(rows))
    assert chosen.ids == ["take3.wav", "copy.wav"]
    for row, name in enumerate(chosen.ids):
        (itself,) = chosen.search(chosen.landmarks_of(row))
        assert (itself.row, itself.id, itself.offset_seconds) == (row, name, 0.0)


def test_a_dataset_without_fingerprints_is_an_error_that_says_how_to_add_them(tmp_path: Path) -> None:
    made = encode_collection(write_collection(tmp_path / "audio"), fingerprints=False)
    with pytest.raises(ConfigError, match="solfa fingerprint"):
        find_duplicates(made)


def _draw(rng: np.random.Generator, num_clips: int) -> list[Landmarks]:
    clips = []
    for _ in range(num_clips):
        count = int(rng.integers(0, 60))
        pairs = rng.integers(0, 40, count).astype(np.int64) * 12_345
        clips.append(Landmarks(pairs, np.sort(rng.integers(0, 30, count)).astype(np.int64)))
    return clips


def _stored(clips: list[Landmarks]) -> StoredLandmarks:
    numbers = [pack_landmarks(clip) for clip in clips]
    starts = np.cumsum([0, *map(len, numbers)]).astype(np.int64)
    return StoredLandmarks(np.concatenate(numbers), starts, np.ones(len(clips), np.bool_))


def _agreeing_slowly(query: Landmarks, clip: Landmarks) -> dict[int, int]:
    """By offset, how many different landmarks agree there or one frame later."""
    by_offset: dict[int, set[int]] = {}
    for pair, frame in zip(query.pairs.tolist(), query.frames.tolist(), strict=True):
        for other, when in zip(clip.pairs.tolist(), clip.frames.tolist(), strict=True):
            if pair == other:
                by_offset.setdefault(when - frame, set()).add(pair)
    return {offset: len(kinds | by_offset.get(offset + 1, set())) for offset, kinds in by_offset.items()}


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_the_index_agrees_with_comparing_every_pair(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solfa.data.copies.landmark_index.CLIPS_AT_ONCE", at_once)
    clips = _draw(np.random.default_rng(0), 12)
    stored = _stored(clips)
    index = LandmarkIndex.build(lambda: [stored])
    assert index.save(tmp_path / "index")
    assert not index.save(tmp_path / "index")
    index = LandmarkIndex.load(tmp_path / "index")
    assert index.num_clips == 12
    for query in clips:
        expected = {}
        for number, clip in enumerate(clips):
            votes = _agreeing_slowly(query, clip)
            if max(votes.values(), default=0) >= 6:
                expected[number] = (
                    max(votes.values()),
                    {at for at, many in votes.items() if many == max(votes.values())},
                )
        found = index.agreements(query, 6)
        assert {match.clip: match.landmarks for match in found} == {clip: most for clip, (most, _) in expected.items()}
        assert all(match.offset in expected[match.clip][1] for match in found)


def test_a_large_dataset_keeps_its_index_in_a_file(
    takes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = find_duplicates(takes).pairs
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(copy_search, "KEPT_CLIPS", 3)
    assert find_duplicates(takes).pairs == expected
    (kept,) = (tmp_path / "landmarks").glob("*.index")
    before = kept.stat().st_mtime_ns
    assert find_duplicates(takes).pairs == expected
    assert kept.stat().st_mtime_ns == before
    kept.write_bytes(kept.read_bytes()[:1000])
    with pytest.raises(StoreError, match="remove"):
        find_duplicates(takes)


def test_clusters_join_what_pairs_connect_and_add_up_offsets() -> None:
    def pair(one: str, other: str, offset: float) -> CopyPair:
        return CopyPair(one, copy_search.Copy(0, other, 9, offset, 0.0, 1.0))

    clusters = cluster_pairs([pair("b", "c", 2.0), pair("a", "b", 1.0), pair("x", "y", 0.5)], list("yxcba"))
    assert [[member.id for member in cluster] for cluster in clusters] == [["c", "b", "a"], ["y", "x"]]
    # a begins 1 s into b, which begins 2 s into c.
    assert [member.start_seconds for member in clusters[0]] == [0.0, 2.0, 3.0]


def test_speed_is_found_when_asked_for(takes: Path) -> None:
    import soxr

    finder = CopyFinder.of(takes)
    fast = find_landmarks(soxr.resample(melody(6, RATE, seed=2)[0], 1.02, 1.0)[None], RATE)
    (copy, *_) = finder.search(fast, any_speed=True)
    assert copy.id == "take2.wav"
    assert copy.speed == pytest.approx(1 / 1.02, abs=0.006)
    assert all(found.landmarks < copy.landmarks / 2 for found in finder.search(fast, min_landmarks=3))
