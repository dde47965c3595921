"""How well content fingerprints find copies; what they cost is in fingerprint_cost.py.

python benchmarks/fingerprints.py recall FOLDER    planted copies in real music: recall, false pairs
python benchmarks/fingerprints.py loop FILE        a recording that plays one piece again and again, by the command
"""

import argparse
import io
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import soundfile
import soxr

from solfa.data.copies.copy_search import MIN_LANDMARKS
from solfa.data.copies.landmark_index import Agreement, LandmarkIndex
from solfa.ops.landmarks import (
    LANDMARK_FRAME_RATE,
    LANDMARK_RATE,
    find_landmarks,
    pack_landmarks,
    unpack_landmarks,
)
from solfa.store.dataset import open_dataset
from solfa.store.landmark_file import StoredLandmarks

LEAST = 4
"""Fewer landmarks that agree are not counted."""
LISTENED = 100
"""How many pairs within recordings are compared as waveforms."""

Audio = np.ndarray[Any, np.dtype[np.float32]]


class Excerpt(NamedTuple):
    """A part of a recording, in seconds."""

    recording: int
    start: float
    stop: float


def read(path: Path, start: float, seconds: float) -> tuple[Audio, int]:
    with soundfile.SoundFile(path) as file:
        file.seek(round(start * file.samplerate))
        sound = file.read(round(seconds * file.samplerate), dtype="float32", always_2d=True)
        return sound, file.samplerate


def mp3(sound: Audio, sample_rate: int, kbit: float = 64) -> Audio:
    """Compress to at most 64 kbit/s and back."""
    for level in (0.875, 0.9, 0.95, 1.0):
        file = io.BytesIO()
        options = {"format": "MP3", "subtype": "MPEG_LAYER_III", "bitrate_mode": "CONSTANT"}
        soundfile.write(file, sound, sample_rate, compression_level=level, **options)
        if file.tell() * 8 / len(sound) * sample_rate <= 1.02e3 * kbit:
            break
    file.seek(0)
    return soundfile.read(file, dtype="float32", always_2d=True)[0]


CHANGES = {
    "offset": lambda sound, rate, rng: sound,
    "gain": lambda sound, rate, rng: sound * np.float32(10 ** rng.uniform(-1.5, 0)),
    "mono": lambda sound, rate, rng: sound.mean(axis=1, keepdims=True),
    "MP3 64k": lambda sound, rate, rng: mp3(sound, rate),
    "all of them": lambda sound, rate, rng: mp3(sound.mean(axis=1, keepdims=True) * np.float32(0.2), rate),
}
"""What becomes of a copy; every one is cut somewhere else, between two samples of the grid."""


def stored(sounds: Iterator[tuple[Audio, int]]) -> StoredLandmarks:
    numbers = [pack_landmarks(find_landmarks(np.ascontiguousarray(sound.T), rate)) for sound, rate in sounds]
    starts = np.cumsum([0, *map(len, numbers)]).astype(np.int64)
    return StoredLandmarks(np.concatenate(numbers), starts, np.ones(len(numbers), np.bool_))


def recall(folder: Path, hours: float, seconds: float, copies: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".ogg", ".opus", ".flac", ".wav", ".mp3"))
    lengths = {path: soundfile.info(path).duration for path in paths}
    paths = [paths[index] for index in rng.permutation(len(paths)) if lengths[paths[index]] > 3 * seconds]
    while sum(lengths[path] for path in paths) > 3600 * hours:
        paths.pop()
    clips = [
        Excerpt(number, start, start + seconds)
        for number, path in enumerate(paths)
        for start in np.arange(0, lengths[path] - seconds, seconds).tolist()
    ]
    print(
        f"{len(paths)} recordings, {sum(lengths[p] for p in paths) / 3600:.1f} h, {len(clips)} clips of {seconds:g} s"
    )
    began = time.process_time()
    landmarks = stored(read(paths[clip.recording], clip.start, seconds) for clip in clips)
    print(
        f"{4 * len(landmarks.numbers) / len(clips):.0f} bytes a clip, {time.process_time() - began:.0f} s to read all"
    )
    index = LandmarkIndex.build(lambda: [landmarks])
    heard = Heard(paths)
    related = _unrelated(index, landmarks, clips, heard)
    _planted(index, clips, paths, lengths, seconds, copies, rng, related)


class Heard:
    """Looks whether two clips are copies by comparing their waveforms, once fingerprints say where to look."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths

    def name(self, recording: int) -> str:
        return self._paths[recording].name

    def _mono(self, recording: int, start: float, seconds: float) -> Audio:
        sound, rate = read(self._paths[recording], max(0.0, start), seconds)
        return soxr.resample(sound.mean(axis=1), rate, LANDMARK_RATE)

    def correlation(self, one: Excerpt, other: Excerpt, found: Agreement) -> float:
        """The largest correlation of the part that agrees, within 0.1 s of where it should be."""
        first = found.first / LANDMARK_FRAME_RATE
        span = max(1.0, (found.last - found.first) / LANDMARK_FRAME_RATE)
        query = self._mono(one.recording, one.start + first, span)
        start = other.start + first + found.offset / LANDMARK_FRAME_RATE
        near = self._mono(other.recording, start - 0.1, span + 0.2)
        size = len(near) + len(query)
        product = np.fft.irfft(np.fft.rfft(near, size) * np.conj(np.fft.rfft(query, size)), size)
        energy = np.cumsum(near**2)
        length = len(query)
        lags = range(max(1, len(near) - length))
        norms = [np.sqrt(energy[min(lag + length, len(energy)) - 1] - (energy[lag - 1] if lag else 0)) for lag in lags]
        scale = float(np.sqrt((query**2).sum()))
        return max(float(abs(product[lag])) / max(1e-9, scale * norm) for lag, norm in zip(lags, norms, strict=True))


def _unrelated(
    index: LandmarkIndex, landmarks: StoredLandmarks, clips: list[Excerpt], heard: Heard
) -> set[frozenset[int]]:
    """Count the pairs of clips that agree without being copies; return which recordings share a sound.

    Two masters of one song are such: where some of their clips have the same waveform, the others are no false pairs.
    """
    found: list[tuple[int, int, Agreement]] = []
    times = []
    for number in range(len(clips)):
        began = time.process_time()
        matches = index.agreements(unpack_landmarks(landmarks.of(number)), LEAST)
        times.append(time.process_time() - began)
        found += [(number, match.clip, match) for match in matches if match.clip > number]
    inside = [pair for pair in found if clips[pair[0]].recording == clips[pair[1]].recording]
    between = [pair for pair in found if clips[pair[0]].recording != clips[pair[1]].recording]
    inside = [pair for pair in inside if pair[2].landmarks >= MIN_LANDMARKS]
    confirmed = sum(heard.correlation(clips[one], clips[other], match) > 0.5 for one, other, match in inside[:LISTENED])
    same = [
        (one, other)
        for one, other, match in between
        if match.landmarks >= MIN_LANDMARKS and heard.correlation(clips[one], clips[other], match) > 0.5
    ]
    related = {frozenset((clips[one].recording, clips[other].recording)) for one, other in same}
    strange = [
        (match.landmarks, one, other)
        for one, other, match in between
        if frozenset((clips[one].recording, clips[other].recording)) not in related
    ]
    pairs = len(clips) * (len(clips) - 1) // 2
    false = sorted((pair for pair in strange if pair[0] >= MIN_LANDMARKS), reverse=True)
    names = [" and ".join(heard.name(recording) for recording in sorted(pair)) for pair in related]
    print(f"{pairs:,} pairs; by landmarks that agree: {sorted(Counter(pair[0] for pair in strange).items())}")
    print(f"  {len(false)} false pairs with {MIN_LANDMARKS} or more: {len(false) / pairs:.1e} of all")
    print(f"  {len(same)} pairs of two recordings have the same waveform: {', '.join(names) or 'none'}")
    print(
        f"  {len(inside)} pairs repeat inside one recording; of the first {min(len(inside), LISTENED)}, the waveforms "
        f"of {confirmed} correlate"
    )
    print(f"  query {1e3 * statistics.median(times):.2f} ms")
    for count, one, other in false[:10]:
        places = (f"{heard.name(clips[number].recording)} at {clips[number].start:.0f} s" for number in (one, other))
        print(f"  {count} landmarks: {' and '.join(places)}")
    return related


def _planted(
    index: LandmarkIndex,
    clips: list[Excerpt],
    paths: list[Path],
    lengths: dict[Path, float],
    seconds: float,
    copies: int,
    rng: np.random.Generator,
    related: set[frozenset[int]],
) -> None:
    first_of = {}
    for number, clip in enumerate(clips):
        first_of.setdefault(clip.recording, number)
    for name, change in CHANGES.items():
        found = right = foreign = 0
        least = []
        for _ in range(copies):
            recording = int(rng.integers(len(paths)))
            start = rng.uniform(0, lengths[paths[recording]] - 2 * seconds)
            sound, rate = read(paths[recording], start, seconds)
            changed = change(sound, rate, rng)
            matches = index.agreements(find_landmarks(np.ascontiguousarray(changed.T), rate), MIN_LANDMARKS)
            expected = first_of[recording] + int((start + seconds / 2) // seconds)
            here = [match for match in matches if match.clip == expected]
            offset = (start - clips[expected].start) * LANDMARK_FRAME_RATE
            found += bool(here)
            right += any(abs(match.offset - offset) <= 3 for match in here)
            least.append(max((match.landmarks for match in here), default=0))
            others = {clips[match.clip].recording for match in matches} - {recording}
            foreign += sum(frozenset((recording, other)) not in related for other in others)
        print(
            f"  {name:12s} {found / copies:7.2%} of {copies} found, {right / copies:7.2%} at the right place, "
            f"landmarks: least {min(least)}, 1 % {np.percentile(least, 1):.0f}, median {np.median(least):.0f}; "
            f"{foreign} false matches of {copies * len(clips):,} pairs"
        )


class Segment(NamedTuple):
    """A clip of a recording that repeats a piece: which it is, and when it begins in the piece."""

    repetition: int
    start: float


def loop(path: Path, minutes: float, times: int, seconds: float) -> None:
    """Join the beginning of a recording with itself, compress it, encode it in clips, and look for copies in it.

    A repetition does not begin with a clip, so clips are cut elsewhere in each. Two clips of two repetitions should be
    found if they share half of their length.
    """
    piece, rate = read(path, 0, 60 * minutes)
    length = len(piece) / rate
    with tempfile.TemporaryDirectory() as folder:
        (audio := Path(folder, "audio")).mkdir()
        soundfile.write(audio / "loop.mp3", np.tile(piece, (times, 1)), rate, format="MP3")
        data, found = Path(folder, "loop.solfa"), Path(folder, "found.json")
        command = [sys.executable, "-m", "solfa"]
        subprocess.run([*command, "encode", audio, data, "--segment-seconds", f"{seconds:g}"], check=True)
        subprocess.run([*command, "duplicates", data, "--json", found], check=False)
        report, ids = json.loads(found.read_text()), list(open_dataset(data).ids())
    starts = {name: float(name.rpartition("@")[2]) for name in ids}
    whole = {name: start for name, start in starts.items() if start + seconds <= times * length}
    place = {name: Segment(*divmod(start, length)) for name, start in whole.items()}
    counts = count_loop(report, place, length, seconds)
    print(f"{counts.found} of {counts.expected} pairs of clips that share at least {seconds / 2:g} s are found")
    print(f"  {counts.found_less} of {counts.less} that share less")
    print(f"  {counts.found_again} of {counts.again} clips after the first repetition are copies of another one")
    print(f"  {counts.others} other pairs: the piece repeats itself, or they are false")


class LoopCounts(NamedTuple):
    """Of a recording that repeats a piece: which pairs of clips were found, and how many there are to find."""

    found: int
    expected: int
    """Pairs of two repetitions that share at least half of a clip."""
    found_less: int
    less: int
    """Pairs that share less."""
    found_again: int
    again: int
    """Clips after the first repetition."""
    others: int
    """Pairs that were found and do not share anything by the repetition."""


def count_loop(report: dict[str, Any], place: dict[str, Segment], length: float, seconds: float) -> LoopCounts:
    """Compare what `solfa duplicates --json` says with where the clips are in the piece."""
    found = {frozenset((pair["id"], pair["copy"])) for pair in report["pairs"]}

    def shared_seconds(one: Segment, other: Segment) -> float:
        apart = abs(one.start - other.start)
        return 0.0 if one.repetition == other.repetition else max(0.0, seconds - min(apart, length - apart))

    pairs = itertools.combinations(place, 2)
    shared = {frozenset(pair): shared_seconds(*(place[name] for name in pair)) for pair in pairs}
    expected = {pair for pair, both in shared.items() if both >= seconds / 2}
    less = {pair for pair, both in shared.items() if 0 < both < seconds / 2}
    again = {name for name in place if place[name].repetition}
    known = {name for pair in found for name in pair}
    others = (found & shared.keys()) - expected - less
    pairs_found = (len(expected & found), len(expected), len(less & found), len(less))
    return LoopCounts(*pairs_found, len(again & known), len(again), len(others))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["recall", "loop"])
    parser.add_argument("place", type=Path, help="a folder of audio, or a file for loop")
    parser.add_argument("--hours", type=float, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--minutes", type=float, default=3.07, help="of the piece in a loop")
    parser.add_argument("--times", type=int, default=6, help="that it is played")
    parser.add_argument("--copies", type=int, default=200, help="of each kind")
    given = parser.parse_args()
    if given.what == "recall":
        recall(given.place, given.hours, given.seconds, given.copies)
    else:
        loop(given.place, given.minutes, given.times, given.seconds)
