"""How fast clips are read in random order: Solfa, Hugging Face datasets, and one .npy + .json per clip.

    python benchmarks/read_speed.py [--clips 100000] [--files 20000] [--rounds 7] [--folder DIR]

One process, page cache warm, the same clips [500, 4] of uint16 everywhere. Every reader returns the id and the array,
and the caller then touches the array the same way: one element, or (second table) the sum of all of them, so that a
view which reads nothing is not compared with a read. Rounds are interleaved; medians, by wall clock and CPU time.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from ratios import Ratio, add_option, write_ratios

from solfa.store import ArraySpec, Dataset, DatasetInfo, Outcome, PlannedClip, append_arrays, open_dataset

SHAPE = (500, 4)
CODEBOOK_SIZE = 2048
SPEC = ArraySpec(
    kind="codes",
    width=SHAPE[1],
    codebook_size=CODEBOOK_SIZE,
    sample_rate=32_000,
    num_channels=1,
    hop_length=640,
    dtype="uint16",
)

Array = np.ndarray[Any, Any]
Read = Callable[[int], tuple[str, Array]]
Touch = Callable[[Array], int]


class Timing(NamedTuple):
    """Seconds, by the clock on the wall and by this process's use of the CPU."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Reader:
    """One way to read a clip by its index."""

    name: str
    read: Read
    num_clips: int
    reads_per_round: int


class Clips:
    """The clips of the benchmark, made anew each time they are iterated, so that they need no memory."""

    def __init__(self, num_clips: int, num_frames: Array | None = None) -> None:
        self.num_frames = np.full(num_clips, SHAPE[0]) if num_frames is None else num_frames

    def __iter__(self) -> Iterator[Outcome]:
        for index, num_frames in enumerate(self.num_frames.tolist()):
            name = f"artist/album/{index:06d}"
            clip = PlannedClip(id=name, key=name, uri=f"{name}.flac", caption=f"a melody, take {index}")
            yield Outcome(clip, clip_array(index, num_frames), num_samples=num_frames * SPEC.hop_length)


def clip_array(index: int, num_frames: int = SHAPE[0]) -> Array:
    """Draw the codes of one clip."""
    return np.random.default_rng(index).integers(0, CODEBOOK_SIZE, (num_frames, SHAPE[1]), np.uint16)


def one_element(array: Array) -> int:
    return int(array[-1, -1])


def all_elements(array: Array) -> int:
    return int(array.sum())


def solfa_reader(dataset: Dataset) -> Reader:
    def read(index: int) -> tuple[str, Array]:
        clip = dataset[index]
        return clip.id, clip.array

    return Reader("Solfa", read, len(dataset), 20_000)


def hugging_face_reader(root: Path, cache: Path) -> Reader:
    """Let datasets make its own Arrow copy; the arrays stay flat lists, the layout that it reads fastest."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets

    datasets.disable_progress_bars()
    files = [str(path) for path in sorted((root / "data").iterdir())]
    loaded = datasets.load_dataset("arrow", data_files=files, split="train", cache_dir=str(cache)).with_format("numpy")

    def read(index: int) -> tuple[str, Array]:
        row = loaded[index]
        return str(row["id"]), row["array"].reshape(SHAPE)

    return Reader("HF datasets, numpy format", read, len(loaded), 1_000)


def npy_reader(folder: Path, num_files: int) -> Reader:
    folder.mkdir(exist_ok=True)
    for index in range(num_files):
        path = folder / f"{index:06d}.npy"
        if not path.exists():
            described = {"id": f"artist/album/{index:06d}", "caption": f"a melody, take {index}", "seconds": 10.0}
            path.with_suffix(".json").write_text(json.dumps(described))
            np.save(path, clip_array(index))

    def read(index: int) -> tuple[str, Array]:
        with open(f"{folder}/{index:06d}.json", "rb") as file:  # noqa: PTH123 - the fastest that a user would write
            described = json.load(file)
        return described["id"], np.load(f"{folder}/{index:06d}.npy")

    return Reader(".npy + .json per clip", read, num_files, 2_000)


def measure(reader: Reader, touch: Touch, seed: int) -> Timing:
    """Read clips in a random order; seconds per clip."""
    order = np.random.default_rng(seed).integers(0, reader.num_clips, reader.reads_per_round).tolist()
    wall, cpu = time.perf_counter(), time.process_time()
    characters = total = 0
    for index in order:
        clip_id, array = reader.read(index)
        characters += len(clip_id)
        total += touch(array)
    timing = Timing(
        (time.perf_counter() - wall) / len(order),
        (time.process_time() - cpu) / len(order),
    )
    assert characters and total
    return timing


def compare(readers: list[Reader], touch: Touch, rounds: int) -> list[Timing]:
    """Give each reader its turn in every round; medians."""
    taken: list[list[Timing]] = [[] for _ in readers]
    for seed in range(rounds):
        for reader, timings in zip(readers, taken, strict=True):
            timings.append(measure(reader, touch, seed))
    return [Timing(median(t.wall for t in timings), median(t.cpu for t in timings)) for timings in taken]


def print_table(title: str, readers: list[Reader], timings: list[Timing]) -> None:
    print(f"\n{title}\n  {'':28}{'clips/s':>10}{'us wall':>10}{'us CPU':>10}{'Solfa is':>12}{'by CPU':>10}")
    first = timings[0]
    for reader, timing in zip(readers, timings, strict=True):
        ratios = f"{timing.wall / first.wall:>11.1f}x{timing.cpu / first.cpu:>9.1f}x"
        print(f"  {reader.name:28}{1 / timing.wall:>10,.0f}{timing.wall * 1e6:>10.2f}{timing.cpu * 1e6:>10.2f}{ratios}")


def check_equal(readers: list[Reader]) -> None:
    for index in range(0, min(reader.num_clips for reader in readers), 997):
        found = [reader.read(index) for reader in readers]
        assert all(clip_id == found[0][0] and np.array_equal(array, clip_array(index)) for clip_id, array in found)


def time_opening(root: Path, rounds: int) -> tuple[Timing, Timing]:
    """Open the dataset; and open it and read every shard's rows, which the first clip of each does."""
    opened, first = [], []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        dataset = open_dataset(root)
        assert len(dataset)
        opened.append(Timing(time.perf_counter() - wall, time.process_time() - cpu))
        for start in dataset._starts[:-1]:
            assert dataset[start].id
        first.append(Timing(time.perf_counter() - wall, time.process_time() - cpu))
    return (
        Timing(median(t.wall for t in opened), median(t.cpu for t in opened)),
        Timing(median(t.wall for t in first), median(t.cpu for t in first)),
    )


def tree_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


def say(name: str, value: str, goal: str, reached: bool) -> None:
    print(f"  {name:44}{value:>12}   goal {goal:10}{'reached' if reached else 'MISSED'}")


def run(folder: Path, num_clips: int, num_files: int, rounds: int) -> list[Ratio]:
    root = folder / f"clips{num_clips}.solfa"
    start = time.perf_counter()
    append_arrays(root, DatasetInfo.of("benchmark", SPEC, {}), Clips(num_clips), {})
    print(f"{num_clips:,} clips {list(SHAPE)} uint16, written or found in {time.perf_counter() - start:.0f} s")
    opened, first = time_opening(root, rounds)
    readers = [
        solfa_reader(open_dataset(root)),
        hugging_face_reader(root, folder / "hf"),
        npy_reader(folder / "npy", min(num_files, num_clips)),
    ]
    check_equal(readers)
    print(f"shuffled reads, {rounds} interleaved rounds, medians; .npy + .json with {readers[2].num_clips:,} clips")
    compare(readers, one_element, 1)
    touched = compare(readers, one_element, rounds)
    print_table("id and array, one element touched", readers, touched)
    print_table("id and array, all elements summed", readers, compare(readers, all_elements, rounds))
    ratio = tree_bytes(root) / (num_clips * SHAPE[0] * SPEC.bytes_per_frame)
    print("\nGoals (ratios by CPU time, one element touched)")
    ratios = []
    say("opening", f"{opened.wall * 1e3:.1f} ms", "< 200 ms", opened.wall < 0.2)
    for reader, timing, goal in zip(readers[1:], touched[1:], (20, 15), strict=True):
        times = timing.cpu / touched[0].cpu
        say(f"against {reader.name}", f"{times:.1f}x", f">= {goal}x", times >= goal)
        ratios.append(Ratio("reading a clip", reader.name, times, goal))
    say("bytes on disk / raw uint16", f"{ratio:.4f}x", "<= 1.1x", ratio <= 1.1)
    print(f"  opening and reading the rows of every shard: {first.wall * 1e3:.0f} ms ({first.cpu * 1e3:.0f} ms CPU)")
    return [*ratios, Ratio("bytes on disk", "raw uint16", ratio, 1.1, "lower")]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=20_000, help="clips of the .npy + .json way")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="keeps what is made, for the next time")
    add_option(parser)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write_ratios(options.ratios, run(folder, options.clips, options.files, options.rounds))


if __name__ == "__main__":
    main(sys.argv[1:])
