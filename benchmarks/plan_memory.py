"""Does memory grow with the collection? Peak memory of `solfa encode` for 100 and for 100,000 clips.

    python benchmarks/plan_memory.py [--clips 100 100000]

The clips are rows of a CSV that name a hundred short recordings over and over, each row a clip with a caption of its
own, so that the plan grows and the audio does not. Each run is a process of its own; the peak is the largest of the
command and of its encoder and decoder processes, as the kernel counted it.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile

NUM_RECORDINGS = 100

RUN = """
import json, resource, sys
import solfa
report = solfa.encode(sys.argv[1], sys.argv[2], codec="mulaw:sample_rate=8000", num_encoders=1, num_workers=1)
peak = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({"clips": report.clips, "command_mb": peak[0], "encoders_mb": peak[1]}))
"""


def make_source(folder: Path, num_clips: int) -> Path:
    rng = np.random.default_rng(0)
    for index in range(NUM_RECORDINGS):
        path = folder / f"audio/{index:03d}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            soundfile.write(path, 0.1 * rng.standard_normal(400), 8000)
    table = folder / f"clips{num_clips}.csv"
    with table.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "path", "caption", "genre"])
        for index in range(num_clips):
            path = f"audio/{index % NUM_RECORDINGS:03d}.wav"
            rows.writerow([f"clip{index:07d}", path, f"Caption number {index} of a made-up collection", "none"])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, nargs="+", default=[100, 100_000])
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name:
        for num_clips in options.clips:
            table = make_source(Path(name), num_clips)
            started = time.monotonic()
            run = subprocess.run(
                [sys.executable, "-c", RUN, str(table), str(Path(name) / f"{num_clips}.solfa")],
                capture_output=True,
                text=True,
                check=True,
            )
            results.append(json.loads(run.stdout))
            seconds = time.monotonic() - started
            print(
                f"{num_clips:>9,} clips: command {results[-1]['command_mb']:.0f} MB, "
                f"largest process below it {results[-1]['encoders_mb']:.0f} MB, {seconds:.0f} s",
                flush=True,
            )
    for key in ("command_mb", "encoders_mb"):
        print(f"growth of {key}: {results[-1][key] - results[0][key]:.0f} MB")


if __name__ == "__main__":
    main()
