"""What content fingerprints cost: the index that copies are found in, and the time of encoding.

    python benchmarks/fingerprint_cost.py index            size, build rate and query time for 10^4 to 10^6 clips
    python benchmarks/fingerprint_cost.py encode FOLDER    what fingerprints add to the time of encoding

Times are CPU seconds of one core.
"""

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from solfa.data.copies.copy_search import MIN_LANDMARKS
from solfa.data.copies.landmark_index import LandmarkIndex
from solfa.ops.landmarks import unpack_landmarks
from solfa.store.landmark_file import StoredLandmarks


def synthetic(num_clips: int, seed: int, per_clip: int = 250) -> StoredLandmarks:
    """Clips of 10 s with as many landmarks as music has, low frequencies more often than high ones."""
    rng = np.random.default_rng(seed)
    total = num_clips * per_clip
    bins = [(20 + 400 * rng.random(total) ** 2).astype(np.int64) for _ in range(2)]
    pairs = (bins[0] << 14) | (bins[1] << 5) | rng.integers(1, 24, total)
    frames = np.sort(rng.integers(0, 208, (num_clips, per_clip)), axis=1)
    gaps = np.diff(frames, prepend=0, axis=1).reshape(-1)
    numbers = ((pairs << 9) | gaps).astype(np.uint32)
    return StoredLandmarks(numbers, np.arange(num_clips + 1, dtype=np.int64) * per_clip, np.ones(num_clips, np.bool_))


def index_speed(sizes: list[int], at_once: int = 10_000) -> None:
    print("clips      size     build, clips/s   load, s   query, ms: median, 99 %   memory of the process")
    for num_clips in sizes:
        drawing = 0.0

        def parts(num_clips: int = num_clips) -> Iterator[StoredLandmarks]:
            nonlocal drawing
            for seed in range(num_clips // at_once):
                began = time.process_time()
                part = synthetic(at_once, seed)
                drawing += time.process_time() - began
                yield part

        began = time.process_time()
        index = LandmarkIndex.build(parts)
        build = time.process_time() - began - drawing
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "index")
            index.save(path)
            began = time.perf_counter()
            index = LandmarkIndex.load(path)
            load = time.perf_counter() - began
        queries = synthetic(at_once, 0)
        times = []
        for clip in range(200):
            query = unpack_landmarks(queries.of(clip))
            began = time.process_time()
            found = index.agreements(query, MIN_LANDMARKS)
            times.append(time.process_time() - began)
            assert [match.clip for match in found if match.offset == 0] == [clip]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"{num_clips:9,}  {index.num_bytes / 1e9:5.2f} GB  {num_clips / build:10,.0f}  {load:10.2f}      "
            f"{1e3 * np.median(times):.2f}, {1e3 * np.percentile(times, 99):.2f}          {peak:.2f} GB"
        )


def encoding(folder: Path, rounds: int, seconds: int = 10) -> None:
    """Compare finding the landmarks of clips with what encoding them takes anyway: reading, and the codec.

    In turn, clip by clip: a whole run with and without differs by less than two runs of one kind do.
    """
    import torch

    import solfa
    from solfa.audio import read_audio
    from solfa.ops import find_landmarks

    torch.set_num_threads(1)
    codec = solfa.load_codec("solfa_24khz")
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".flac", ".wav", ".ogg", ".mp3", ".opus"))
    ratios = []
    for _ in range(rounds):
        took = {"reading": 0.0, "codec": 0.0, "landmarks": 0.0}
        total = 0.0
        for path in paths:
            began = time.process_time()
            audio = read_audio(path, sample_rate=codec.sample_rate, num_channels=codec.num_channels)
            took["reading"] += time.process_time() - began
            total += audio.shape[1] / codec.sample_rate
            for start in range(0, audio.shape[1], seconds * codec.sample_rate):
                clip = np.ascontiguousarray(audio[:, start : start + seconds * codec.sample_rate])
                began = time.process_time()
                codec.encode(torch.from_numpy(clip)[None])
                encoded = time.process_time()
                find_landmarks(clip, codec.sample_rate)
                took["codec"] += encoded - began
                took["landmarks"] += time.process_time() - encoded
        ratios.append(took["landmarks"] / (took["reading"] + took["codec"]))
        each = ", ".join(f"{name} {1e3 * spent / total:.2f} ms" for name, spent in took.items())
        print(f"  a second of audio: {each}: {ratios[-1]:+.2%}", flush=True)
    print(f"fingerprints add {statistics.median(ratios):.2%} to encoding (median of {rounds})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["index", "encode"])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clips", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    given = parser.parse_args()
    if given.what == "index":
        index_speed(given.clips)
    elif given.folder is None:
        parser.error("expected a folder of audio")
    else:
        encoding(given.folder, given.rounds)
