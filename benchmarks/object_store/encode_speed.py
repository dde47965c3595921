"""How fast is `solfa encode` to a bucket 50 ms away, beside a local folder?

    python -m benchmarks.object_store.encode_speed [--recordings 48] [--rounds 3] [--codec NAME] [--milliseconds 50]

A real S3 server (SeaweedFS) behind a TCP proxy that delays every byte by half the round trip, each way. The codec is
the one that comes with Solfa, of which a shard of so short a collection takes a second, or another one of its real size
with random weights: EnCodec at 32 kHz takes more than ten. Folder and bucket in turn, each time a new dataset; one
encoder process, whose rate is counted from the first clip until the dataset is finished and can be opened: planning,
loading and importing are the same for both and not counted. The datasets are compared byte for byte.

On a machine that is busy with other things, `--asleep 0.25` takes a codec in this process that sleeps so long for every
recording instead of computing: what is left is how long the command waits for the bucket.
"""

import argparse
import hashlib
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

import solfa
from benchmarks import codec_speed
from benchmarks.object_store.server import object_server
from solfa.encoding.progress import Totals
from solfa.files import store_at
from solfa.spelling import size
from solfa.store.schema import DatasetInfo

SECONDS, SAMPLE_RATE = 30.0, 24_000


class Sleeper:
    """Mu-law, after a while."""

    def __init__(self, seconds: float) -> None:
        self._codec = solfa.load_codec("mulaw:sample_rate=1000")
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codec, name)

    def encode(self, audio: Any) -> Any:
        time.sleep(self._seconds * len(audio))
        return self._codec.encode(audio)


class FirstClip:
    """Notes when encoding begins."""

    def __init__(self) -> None:
        self.at: float | None = None

    def settled(self, info: DatasetInfo, *, is_new: bool) -> None: ...
    def waiting(self) -> None: ...
    def listing(self, objects: int) -> None: ...
    def planning(self, recordings: int) -> None: ...
    def loading(self, encoders: int) -> None: ...
    def encoding(self, done: Totals, clips: int, seconds: float) -> None:
        if self.at is None and done.clips:
            self.at = time.monotonic() - done.wall_seconds


def synthesise(folder: Path, count: int) -> None:
    folder.mkdir()
    times = np.arange(round(SECONDS * SAMPLE_RATE)) / SAMPLE_RATE
    for index in range(count):
        rng = np.random.default_rng(index)
        tone = 0.4 * np.sin(2 * np.pi * rng.uniform(80, 900) * times) + 0.05 * rng.standard_normal(len(times))
        soundfile.write(folder / f"{index:04d}.wav", tone, SAMPLE_RATE)


def encode(audio: Path, dest: str, codec: Any) -> float:
    """Encode a folder; return seconds of audio per second."""
    begun = FirstClip()
    report = solfa.encode(audio, dest, codec=codec, num_encoders=1, device="cpu", listener=begun)
    assert begun.at is not None
    return report.seconds / (time.monotonic() - begun.at)


def digest(place: str) -> str:
    store = store_at(place)
    keys = sorted(entry.key for entry in store.list() if not entry.key.startswith(".tmp"))
    return hashlib.sha256(b"".join(key.encode() + store.read(key) for key in keys)).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--codec", default="solfa_24khz", help="or encodec_32khz and others, with random weights")
    parser.add_argument("--asleep", type=float, help="seconds for each recording in which nothing is computed")
    parser.add_argument("--milliseconds", type=float, default=50.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, object_server(options.milliseconds) as bucket:
        work = Path(name)
        synthesise(work / "audio", options.recordings)
        codec = options.codec if options.asleep is None else Sleeper(options.asleep)
        if codec in codec_speed.CONFIGS:
            rate = codec_speed.CONFIGS[codec].get("sampling_rate", 24_000)
            codec_speed.build(codec, work / "model", [codec_speed.synthesise(index, rate) for index in range(4)])
            codec = str(work / "model")
        rates: dict[str, list[float]] = {"folder": [], "bucket": []}
        digests = set()
        for number in range(options.rounds):
            for where, dest in (("folder", f"{work}/{number}.solfa"), ("bucket", f"{bucket}/{number}.solfa")):
                rates[where].append(encode(work / "audio", dest, codec))
                digests.add(digest(dest))
        assert len(digests) == 1, "the datasets differ"
        dataset = solfa.open_dataset(work / "0.solfa")
        shards = len(list((work / "0.solfa/commit").iterdir()))
        found = f"{shards} shards, {size(dataset.num_bytes)}, one digest"
        name = options.codec if options.asleep is None else "asleep"
        print(f"{name}: {options.recordings} recordings of {SECONDS:.0f} s, {found}")
        seconds = options.recordings * SECONDS / shards
    near, far = (statistics.median(rates[where]) for where in ("folder", "bucket"))
    for where, rate in (("folder", near), (f"bucket, {options.milliseconds:g} ms away", far)):
        rounds = ", ".join(f"{one:.1f}" for one in rates[where.partition(",")[0]])
        print(f"{where}: {rate:.1f} x real time ({rounds}), {seconds / rate:.1f} s a shard")
    print(f"ratio of the medians: {far / near:.3f}")


if __name__ == "__main__":
    main()
