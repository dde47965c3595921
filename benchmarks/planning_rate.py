"""How fast is a collection listed and opened before its first shard? Recordings per second, in a folder or a bucket.

    python benchmarks/planning_rate.py [--recordings 10000] [--bucket s3://bucket/prefix]

Short recordings, a thousand to a folder. Every one is opened for its length, rate and channels, and gets its row in the
plan. Counted from the first recording to the last, by the clock and by the CPU time of the process, which says more
where others use the machine, too.
"""

import argparse
import io
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile

import solfa
from solfa.encoding.progress import Silence
from solfa.files import store_at


class Stopwatch(Silence):
    """Notes when the first recording was planned, and the latest."""

    def __init__(self) -> None:
        self.moments: list[tuple[float, float, int]] = []

    def planning(self, recordings: int) -> None:
        self.moments = [*self.moments[:1], (time.monotonic(), time.process_time(), recordings)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=int, default=10_000)
    parser.add_argument("--bucket", help="an empty prefix; the usual variables of AWS lead to it")
    options = parser.parse_args()
    written = io.BytesIO()
    soundfile.write(written, 0.1 * np.random.default_rng(0).standard_normal(800), 16000, format="WAV")
    with tempfile.TemporaryDirectory() as name:
        source = f"{options.bucket}/audio" if options.bucket else f"{name}/audio"
        store = store_at(source)
        for index in range(options.recordings):
            store.create(f"{index // 1000:05d}/{index % 1000:03d}.wav", written.getvalue())
        watch = Stopwatch()
        codec = solfa.load_codec("mulaw:sample_rate=16000")
        solfa.encode(source, Path(name) / "music.solfa", codec=codec, listener=watch)
    (clock, cpu, first), (last_clock, last_cpu, last) = watch.moments
    print(f"{last:,} recordings: {(last - first) / (last_clock - clock):,.0f} per second")
    print(f"{(last - first) / (last_cpu - cpu):,.0f} per CPU second of the process")


if __name__ == "__main__":
    main()
