"""How long the studio takes to show and to search a dataset of very many clips.

    python benchmarks/studio_search.py --clips 100000

Makes a dataset of tiny clips with captions and metadata through the store's own writer, starts `solfa studio` in a
process of its own, asks for the first page as soon as the server answers, and then searches. Prints what a browser
waits for, and the processor time of the server, which does not depend on what else the machine is doing.
"""

import argparse
import http.client
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from solfa.store import ArraySpec, DatasetInfo, Outcome, PlannedClip, append_arrays

WORDS = (
    "warm",
    "bright",
    "slow",
    "fast",
    "piano",
    "guitar",
    "drums",
    "bass",
    "flute",
    "rain",
    "voice",
    "choir",
    "bell",
)
GENRES = ("jazz", "folk", "noise", "techno")
SEARCHES = {
    "all clips": "",
    "one word": "?q=piano",
    "three words": "?q=piano+slow+jazz",
    "a phrase that few have": "?q=%22artist+77%22+choir",
    "nothing like it": "?q=xylophone",
    "a span of a column": "?column=bpm&value=80..90",
    "sorted by a column": "?sort=meta.bpm",
    "the last page": "?page=2000",
}


class ManyClips:
    """Clips with captions and metadata; the same ones each time they are listed."""

    def __init__(self, num_clips: int) -> None:
        rng = np.random.default_rng(0)
        self._words = rng.integers(0, len(WORDS), (num_clips, 4)).tolist()
        self._numbers = rng.integers(0, 1000, (num_clips, 3)).tolist()
        self._codes = rng.integers(0, 256, (40, 1)).astype(np.uint16)

    def __iter__(self) -> Iterator[Outcome]:
        for index, (words, (bpm, genre, length)) in enumerate(zip(self._words, self._numbers, strict=True)):
            name = f"part{index // 1000:03d}/{WORDS[words[0]]}-{index:06d}.wav"
            caption = " ".join(WORDS[word] for word in words)
            metadata = {"bpm": 60 + bpm % 120, "genre": GENRES[genre % len(GENRES)], "artist": f"artist {genre}"}
            num_samples = 1 + length % 40
            clip = PlannedClip(name, name, name, num_samples=num_samples, caption=caption, metadata=metadata)
            yield Outcome(clip, self._codes[:num_samples], num_samples)


def make_many(out: Path, num_clips: int) -> Path:
    """Write the dataset."""
    spec = ArraySpec(
        kind="codes", width=1, codebook_size=256, dtype="uint16", sample_rate=16_000, num_channels=1, hop_length=1
    )
    append_arrays(out, DatasetInfo.of("mulaw", spec, {"made": "of noise"}), ManyClips(num_clips), {"made": "1"})
    return out


def get(port: int, path: str) -> float:
    """Return the seconds until all of a page is here."""
    started = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path, headers={"Accept": "text/html"})
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, body
    connection.close()
    return time.perf_counter() - started


def processor_seconds(process: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dataset = make_many(Path(folder, "many.solfa"), arguments.clips)
        command = [sys.executable, "-m", "solfa", "studio", str(dataset), "--runs", folder, "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        found = re.search(r":(\d+)/", server.stdout.readline())
        assert found is not None
        port, page = int(found[1]), "/datasets/many.solfa"
        for title, query in {"first page": "", "first search": "?q=flute"}.items():
            before = processor_seconds(server.pid)
            seconds = get(port, page + query)
            print(f"{title}: {seconds:.2f} s, {processor_seconds(server.pid) - before:.2f} s of the processor")
        for title, query in SEARCHES.items():
            before = processor_seconds(server.pid)
            times = [get(port, page + query) for _ in range(arguments.rounds)]
            used = (processor_seconds(server.pid) - before) / arguments.rounds
            print(f"{title}: {1000 * statistics.median(times):.0f} ms, {1000 * used:.0f} ms of the processor")
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
