"""How long until something happens: a run's first update, and `solfa encode` where nothing or little is to be done.

    python benchmarks/start_time.py [--rows 10000 100000 1000000] [--rounds 3] [--folder DIR]

The first update of `solfa train solver=lm/debug` is timed on data that is already encoded. For encoding, a CSV of so
many rows that all name one short recording stands for a collection, and its finished dataset is written directly: then
`solfa encode` runs once uncounted, in which the codec is loaded and remembered, then some more times, and once with
ten rows more. Each is a process of its own; CPU seconds, because the machine may be busy, and the peak memory of the
command. The encoder that takes the ten rows is another process, counted beside it. The slope is what one more
recording costs.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import soundfile
from ratios import Ratio, add_option, write_ratios

import solfa
from solfa.encoding.fingerprint import EncodeSettings, dataset_info
from solfa.store import Outcome, PlannedClip, append_arrays

CODEC = "mulaw:sample_rate=8000"
RATE, SAMPLES, MORE = 8_000, 80, 10

COMMAND = """
import atexit, json, os, resource, sys, time
def tell():
    # Not ru_maxrss: it begins with the size of the process that started this one.
    lines = open("/proc/self/status").read().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    others = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    print("MEASURED", json.dumps({"cpu": time.process_time(), "others": others, "peak_mb": peak}), flush=True)
atexit.register(tell)
if sys.argv[1] == "train":
    from solfa.cli import dora_main
    load = dora_main.load_main
    def load_main():
        found = load()  # in the order in which the command itself imports
        from solfa.solvers import StandardSolver
        step = StandardSolver._step
        def first_step(self, *arguments):
            step(self, *arguments)
            tell()
            os._exit(0)
        StandardSolver._step = first_step
        return found
    dora_main.load_main = load_main
from solfa.cli.main import main
sys.argv[0] = "solfa"
main()
"""


def measure(arguments: list[str], folder: Path) -> dict[str, float]:
    """Run a command; say how much CPU time and memory it took."""
    environment = {**os.environ, "SOLFA_DORA_DIR": str(folder / "experiments")}
    run = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments], capture_output=True, text=True, cwd=folder, env=environment
    )
    told = [line for line in run.stdout.splitlines() if line.startswith("MEASURED")]
    if not told or (run.returncode and "train" not in arguments):
        sys.exit(f"solfa {' '.join(arguments)} failed:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return dict(json.loads(told[0].removeprefix("MEASURED")))


class Clips:
    """The clips of the finished dataset, made anew each time they are iterated."""

    def __init__(self, recording: Path, num_rows: int) -> None:
        self._recording, self._num_rows = recording, num_rows

    def __iter__(self) -> Iterator[Outcome]:
        status, codes = self._recording.stat(), np.zeros((SAMPLES, 1), np.uint16)
        for index in range(self._num_rows):
            clip = PlannedClip(
                id=name_of(index),
                key=name_of(index),
                uri=self._recording.name,
                size_bytes=status.st_size,
                mtime_ns=status.st_mtime_ns,
                stop=SAMPLES,
                num_samples=SAMPLES,
                source_sample_rate=RATE,
                source_num_channels=1,
                source_num_samples=SAMPLES,
                source_format="WAV/PCM_16",
            )
            yield Outcome(clip, codes, num_samples=SAMPLES)


def name_of(index: int) -> str:
    return f"collection/clip{index:07d}"


def write_table(path: Path, recording: Path, num_rows: int) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "path"])
        rows.writerows([name_of(index), recording.name] for index in range(num_rows))


def finished(folder: Path, num_rows: int) -> tuple[Path, Path]:
    """Make a table and the dataset that `solfa encode` makes of it."""
    recording, table, root = folder / "one.wav", folder / f"{num_rows}.csv", folder / f"{num_rows}.solfa"
    if not recording.exists():
        soundfile.write(recording, 0.1 * np.random.default_rng(0).standard_normal(SAMPLES), RATE)
    write_table(table, recording, num_rows)
    info = dataset_info(solfa.load_codec(CODEC), EncodeSettings())
    append_arrays(root, info, Clips(recording, num_rows), {}, clips_per_shard=max(1, num_rows // 64))
    return table, root


def encode_again(folder: Path, num_rows: int, rounds: int) -> dict[str, float]:
    table, root = finished(folder, num_rows)
    runs = [measure(["encode", str(table), str(root)], folder) for _ in range(rounds + 1)][1:]
    grown = folder / f"{num_rows}-grown.csv"
    write_table(grown, folder / "one.wav", num_rows + MORE)
    appended = measure(["encode", str(grown), str(root)], folder)
    again = {name: median(run[name] for run in runs) for name in ("cpu", "peak_mb")}
    more = {"append_cpu": appended["cpu"], "append_others": appended["others"], "append_peak_mb": appended["peak_mb"]}
    return {"rows": num_rows, **again, **more}


def ratios_of(first_update: float | None, rows: list[dict[str, float]], rounds: int) -> list[Ratio]:
    """Compare with what `import torch` takes in this run: machines differ, and whoever trains waits for that."""
    command = [sys.executable, "-c", "import time, torch; print(time.process_time())"]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(rounds + 1)]
    torch_cpu = median(float(run.stdout) for run in runs)
    taken = {} if first_update is None else {"first update of lm/debug": first_update}
    for row in rows:
        taken[f"nothing to encode, {row['rows']:,} rows"] = row["cpu"]
        taken[f"ten to append, {row['rows']:,} rows"] = row["append_cpu"]
        taken[f"ten to append, {row['rows']:,} rows, with the encoder"] = row["append_cpu"] + row["append_others"]
    return [Ratio(f"starting, {name}", "import torch", cpu / torch_cpu, better="lower") for name, cpu in taken.items()]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keeps what is made, for the next time")
    parser.add_argument("--no-train", action="store_true", help="leaves the first update out")
    parser.add_argument("--json", type=Path, help="also write what was measured here")
    add_option(parser)
    options = parser.parse_args(arguments)
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not options.no_train:
            train = ["train", "solver=lm/debug", "--clear"]
            measure(train, folder)  # encodes the data, and compiles Python's files
            first = median(measure(train, folder)["cpu"] for _ in range(options.rounds))
            found["first_update_cpu"] = first
            print(f"solfa train solver=lm/debug: first update after {first:.2f} s of CPU", flush=True)
        rows = []
        for num_rows in options.rows:
            rows.append(encode_again(folder, num_rows, options.rounds))
            print("{rows:>9,} rows: again {cpu:.2f} s, {peak_mb:.0f} MB;".format(**rows[-1]), end=" ")
            told = "ten more {append_cpu:.2f} s, {append_peak_mb:.0f} MB, and {append_others:.2f} s in the encoder"
            print(told.format(**rows[-1]), flush=True)
    for before, after in pairwise(rows):
        more = after["rows"] - before["rows"]
        seconds, megabytes = after["cpu"] - before["cpu"], after["peak_mb"] - before["peak_mb"]
        print(f"{before['rows']:,} to {after['rows']:,}: {seconds / more * 1e6:.1f} us and", end=" ")
        print(f"{megabytes / more * 1e6:.0f} bytes a recording")
    write_ratios(options.ratios, ratios_of(found.get("first_update_cpu"), rows, options.rounds))
    if options.json:
        options.json.write_text(json.dumps({**found, "encode": rows}, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
