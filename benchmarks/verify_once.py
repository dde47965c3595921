"""What `verify="once"` costs: reading every clip for the first time and again, with and without it.

    python benchmarks/verify_once.py [--clips 20000] [--rounds 9] [--folder DIR]

One process, page cache warm, the clips [500, 4] of uint16 of read_speed.py in random order: plainly (the array is
summed, so that it is read at all), and as batches of crops from a loader. Rounds are interleaved; medians of CPU time.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from read_speed import SPEC, Clips

from solfa.data import Crop, make_loader
from solfa.store import Dataset, DatasetInfo, append_arrays, open_dataset

WAYS = ("never", "once")


def read_all(dataset: Dataset, seed: int) -> None:
    total = 0
    for index in np.random.default_rng(seed).permutation(len(dataset)).tolist():
        total += int(dataset[index].array.sum())
    assert total


def load_all(dataset: Dataset, seed: int) -> None:
    rows = Crop(num_frames=250, batch_size=32, shuffle=True, random_start=True)
    assert sum(batch.arrays.shape[0] for batch in make_loader(dataset, rows, seed=seed))


def measure(root: Path, use: Callable[[Dataset, int], None], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of CPU per clip of a first and a second pass, for both ways."""
    taken: dict[str, list[list[float]]] = {way: [[], []] for way in WAYS}
    for seed in range(rounds):
        for way in WAYS:
            dataset = open_dataset(root, verify="once" if way == "once" else "never")
            assert [dataset[start].id for start in dataset._starts[:-1]], "the rows of every shard are read beforehand"
            for times in taken[way]:
                start = time.process_time()
                use(dataset, seed)
                times.append((time.process_time() - start) / len(dataset))
    return {way: [median(times) for times in passes] for way, passes in taken.items()}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", type=Path, help="keeps what is made, for the next time")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        root = (options.folder or Path(temporary)) / f"verify{options.clips}.solfa"
        append_arrays(root, DatasetInfo.of("benchmark", SPEC, {}), Clips(options.clips), {})
        print(f"{options.clips:,} clips, {options.rounds} interleaved rounds, median microseconds of CPU per clip")
        print(f"  {'':32}{'never':>8}{'once':>10}{'ratio':>8}")
        for name, use in (("arrays, summed", read_all), ("batches of crops", load_all)):
            found = measure(root, use, options.rounds)
            for number, turn in enumerate(("first pass", "second pass")):
                never, once = (found[way][number] * 1e6 for way in WAYS)
                print(f"  {f'{name}, {turn}':32}{never:>8.2f}{once:>10.2f}{once / never:>8.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
