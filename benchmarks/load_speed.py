"""How many batches of crops a second: Solfa's loader beside what a careful user would build, each at its best.

    python benchmarks/load_speed.py [--clips 100000] [--rounds 9] [--batches 300] [--folder DIR]

One process, one thread, batches of 32 x 500 x 4 in a random order, delivered as int64 by a torch DataLoader, after two
epochs in which every page of the files was touched. Once all clips have exactly 500 frames, and once 500 to 1,000, of
which a random 500 are taken. The peers draw their crops from one generator for the whole batch, and neither resume nor
repeat them; Solfa's are a function of seed, epoch and clip. Every way is first checked to deliver the right frames.
Rounds are interleaved, CPU time, medians.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from ratios import Ratio, add_option, write_ratios
from read_speed import SPEC, Array, Clips
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from solfa.data import Crop, Pack, Pad, make_loader
from solfa.store import DatasetInfo, append_arrays, open_dataset

BATCH, FRAMES, WIDTH = 32, 500, SPEC.width
NPY_FILES = 20_000


@dataclass(frozen=True)
class Collection:
    """The same clips as a Solfa dataset and as one flat array."""

    root: Path
    flat: Array
    num_frames: Array

    @property
    def begins(self) -> Array:
        return np.cumsum(self.num_frames) - self.num_frames


@dataclass(frozen=True)
class Way:
    """One way to get batches: an epoch of them, as often as it is asked for."""

    name: str
    epoch: Callable[[], Iterable[Tensor]]


class FlatItems(Dataset[Any]):
    """A flat memory map, one clip at a time: what the documentation of torch shows."""

    def __init__(self, collection: Collection) -> None:
        self._flat, self._begins = collection.flat, collection.begins
        self._slacks = collection.num_frames - FRAMES
        self._rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self._begins)

    def __getitem__(self, index: int) -> Tensor:
        begin = self._begins[index] + self._rng.integers(self._slacks[index] + 1)
        return torch.from_numpy(self._flat[begin : begin + FRAMES].astype(np.int64))

    def _draw(self, indices: list[int]) -> Array:
        chosen = np.array(indices)
        return np.asarray(self._begins[chosen] + self._rng.integers(self._slacks[chosen] + 1))


class FlatSlices(FlatItems):
    """A flat memory map, a whole batch at a time, copied slice by slice into one array."""

    def __getitems__(self, indices: list[int]) -> Tensor:
        batch = np.empty((len(indices), FRAMES, WIDTH), np.int64)
        for row, begin in enumerate(self._draw(indices).tolist()):
            batch[row] = self._flat[begin : begin + FRAMES]
        return torch.from_numpy(batch)


class FlatGather(FlatItems):
    """A flat memory map, a whole batch at a time, by one indexing operation."""

    def __getitems__(self, indices: list[int]) -> Tensor:
        places = self._draw(indices)[:, None] + np.arange(FRAMES)
        return torch.from_numpy(self._flat[places].astype(np.int64))


class HuggingFace(Dataset[Any]):
    """HF datasets, a whole batch at a time, in the format that it reads fastest: Arrow, whose lists are one array."""

    def __init__(self, loaded: Any) -> None:
        self._loaded, self._rng = loaded.with_format("arrow"), np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self._loaded)

    def __getitems__(self, indices: list[int]) -> Tensor:
        lists = self._loaded[indices].column("array").combine_chunks()
        values, offsets = lists.values.to_numpy(), lists.offsets.to_numpy()
        slacks = np.diff(offsets) // WIDTH - FRAMES
        begins = offsets[:-1] + WIDTH * self._rng.integers(slacks + 1)
        batch = np.empty((len(indices), FRAMES * WIDTH), np.int64)
        for row, begin in enumerate(begins.tolist()):
            batch[row] = values[begin : begin + FRAMES * WIDTH]
        return torch.from_numpy(batch.reshape(-1, FRAMES, WIDTH))


class HuggingFaceRows(Dataset[Any]):
    """HF datasets in the numpy format, as its documentation shows; a DataLoader asks it for a batch of rows."""

    def __init__(self, loaded: Any) -> None:
        self._loaded, self._rng = loaded.with_format("numpy"), np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self._loaded)

    def __getitems__(self, indices: list[int]) -> Tensor:
        arrays = [row["array"].reshape(-1, WIDTH) for row in self._loaded.__getitems__(indices)]
        starts = self._rng.integers(np.array([len(array) for array in arrays]) - FRAMES + 1)
        crops = [array[start : start + FRAMES] for array, start in zip(arrays, starts.tolist(), strict=True)]
        return torch.from_numpy(np.stack(crops).astype(np.int64))


class NpyFiles(Dataset[Any]):
    """One .npy file per clip."""

    def __init__(self, folder: Path, collection: Collection) -> None:
        self._folder, self._rng = folder, np.random.default_rng(0)
        self._count = min(NPY_FILES, len(collection.num_frames))
        folder.mkdir(exist_ok=True)
        if len(os.listdir(folder)) < self._count:  # noqa: PTH208 - ten thousands of names
            for index, begin in enumerate(collection.begins[: self._count].tolist()):
                np.save(folder / f"{index:06d}.npy", collection.flat[begin : begin + collection.num_frames[index]])

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Tensor:
        array = np.load(f"{self._folder}/{index:06d}.npy")
        start = self._rng.integers(len(array) - FRAMES + 1)
        return torch.from_numpy(array[start : start + FRAMES].astype(np.int64))


def as_it_is(batch: Tensor) -> Tensor:
    return batch


def peer(name: str, dataset: Dataset[Any]) -> Way:
    collate = {"collate_fn": as_it_is} if hasattr(dataset, "__getitems__") else {}
    return Way(name, lambda: DataLoader(dataset, BATCH, shuffle=True, **collate))


def solfa_way(name: str, collection: Collection, mode: Crop | Pad | Pack) -> Way:
    loader = make_loader(open_dataset(collection.root), mode)
    return Way(name, lambda: (batch.arrays for batch in loader))


def hugging_face(collection: Collection, cache: Path) -> Any:
    os.environ["HF_HUB_OFFLINE"] = "1"
    import datasets

    datasets.disable_progress_bars()
    files = [str(path) for path in sorted((collection.root / "data").iterdir())]
    return datasets.load_dataset("arrow", data_files=files, split="train", cache_dir=str(cache))


def ways_of(collection: Collection, folder: Path) -> list[Way]:
    ways = [
        solfa_way("Solfa, Crop", collection, Crop(num_frames=FRAMES, batch_size=BATCH)),
        solfa_way("Solfa, Pack", collection, Pack(num_frames=FRAMES, batch_size=BATCH)),
        peer("flat memory map, batched, slices", FlatSlices(collection)),
        peer("flat memory map, batched, one gather", FlatGather(collection)),
        peer("flat memory map, item by item", FlatItems(collection)),
    ]
    try:
        loaded = hugging_face(collection, folder / f"hf-{collection.root.stem}")
        ways.append(peer("HF datasets, batched, Arrow", HuggingFace(loaded)))
        ways.append(peer("HF datasets, batched, numpy", HuggingFaceRows(loaded)))
    except ImportError as error:
        print(f"HF datasets: left out ({error})")
    return [*ways, peer("one .npy per clip", NpyFiles(folder / f"npy-{collection.root.stem}", collection))]


def check(way: Way, collection: Collection) -> None:
    """Make sure that what comes is a crop of a clip: its frames are found in the flat array."""
    first = {}
    for index, begin in enumerate(collection.begins.tolist()):
        first.setdefault(collection.flat[begin].tobytes(), []).append((index, begin))
    batch = next(iter(way.epoch()))
    assert batch.shape == (BATCH, FRAMES, WIDTH) and batch.dtype == torch.int64
    if (collection.num_frames == FRAMES).all() and "Pack" not in way.name:
        for row in batch.numpy().astype(np.uint16):
            begins = [begin for _, begin in first[row[0].tobytes()]]
            assert any(np.array_equal(collection.flat[begin : begin + FRAMES], row) for begin in begins), way.name


def touch(way: Way) -> None:
    """Go through an epoch twice: the first time that a process reads a page of a file, it waits for the kernel."""
    for _ in range(2):
        for _ in way.epoch():
            pass


def measure(way: Way, num_batches: int) -> float:
    """Return the seconds of CPU for a batch; the first of an epoch, which sets things up, is not counted."""
    batches = iter(way.epoch())
    total = int(next(batches)[0, 0, 0])
    start = time.process_time()
    for count, batch in enumerate(batches, start=1):
        total += int(batch[-1, -1, -1])
        if count == num_batches:
            break
    seconds = (time.process_time() - start) / count
    assert total
    return seconds


def compare(ways: list[Way], rounds: int, num_batches: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {way.name: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            taken[way.name].append(measure(way, num_batches))
    return {name: median(times) for name, times in taken.items()}


def collect(folder: Path, name: str, num_frames: Array) -> Collection:
    """Write the clips, or find what an earlier run wrote."""
    root, path = folder / f"{name}{len(num_frames)}.solfa", folder / f"{name}{len(num_frames)}.npy"
    append_arrays(root, DatasetInfo.of("benchmark", SPEC, {}), Clips(len(num_frames), num_frames), {})
    if not path.exists():
        clips = open_dataset(root)
        flat = np.lib.format.open_memmap(path, "w+", np.uint16, (int(num_frames.sum()), WIDTH))
        np.concatenate([clip.array for clip in clips], out=flat)
        flat.flush()
    # As a plain array: indexing a numpy.memmap costs its subclass's bookkeeping each time.
    return Collection(root, np.asarray(np.load(path, mmap_mode="r")), num_frames)


def run(folder: Path, num_clips: int, rounds: int, num_batches: int) -> dict[str, dict[str, float]]:
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    lengths = {
        "whole": np.full(num_clips, FRAMES),
        "crops": np.random.default_rng(0).integers(FRAMES, 2 * FRAMES + 1, num_clips),
    }
    found = {}
    for name, num_frames in lengths.items():
        collection = collect(folder, name, num_frames)
        ways = ways_of(collection, folder)
        for way in ways:
            check(way, collection)
            touch(way)
        found[name] = compare(ways, rounds, num_batches)
        print(f"\n{num_clips:,} clips of {num_frames.min()} to {num_frames.max()} frames: batches per CPU second")
        ours = found[name]["Solfa, Crop"]
        for title, seconds in found[name].items():
            print(f"  {title:40}{1 / seconds:>8,.0f}{seconds * 1e6:>9.0f} us   Solfa's Crop is {seconds / ours:.2f}x")
    return found


def ratios_of(found: dict[str, dict[str, float]]) -> list[Ratio]:
    """Compare with the fastest flat memory map, and with the fastest way of HF datasets."""
    ratios = []
    for name, seconds in found.items():
        ours = seconds["Solfa, Crop"]
        for peer_name in ("flat memory map", "HF datasets"):
            best = min((taken for title, taken in seconds.items() if title.startswith(peer_name)), default=None)
            if best is not None:
                ratios.append(Ratio(f"loading, {name}", f"{peer_name}, at its best", best / ours, 1.0))
    return ratios


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batches", type=int, default=300, help="of each way in each round")
    parser.add_argument("--folder", type=Path, help="keeps what is made, for the next time")
    parser.add_argument("--json", type=Path, help="also write the seconds per batch here")
    add_option(parser)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = run(folder, options.clips, options.rounds, options.batches)
    write_ratios(options.ratios, ratios_of(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
