"""How much encoder work does a useful second of audio cost? Solfa against padding everything to 30 s, by counting.

    python benchmarks/mixed_lengths.py [--clips 200] [--folder AUDIO]

Collections of clips of 1 to 30 s, spread evenly in seconds or in the logarithm, short ones, and any folder of your own.
Solfa's work is counted by a codec that adds up the samples it is given while `solfa.encode` runs; the
other way is what a fixed `sample_size` of 30 s costs: 30 s per recording, whatever it holds.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import soundfile

import solfa
from solfa.codecs import Encoded

SAMPLE_RATE = 8000
PADDED_SECONDS = 30.0


class Counting:
    """A codec that adds up the samples it encodes."""

    def __init__(self) -> None:
        self._codec = solfa.load_codec(f"mulaw:sample_rate={SAMPLE_RATE}")
        self.num_samples = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._codec, name)

    def encode(self, audio) -> Encoded:
        self.num_samples += audio.shape[0] * audio.shape[-1]
        return self._codec.encode(audio)


def make(lengths: np.ndarray, folder: Path) -> Path:
    """Write noise of the given lengths."""
    rng = np.random.default_rng(1)
    for index, seconds in enumerate(lengths):
        path = folder / "audio" / f"{index:04d}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, 0.1 * rng.standard_normal(round(seconds * SAMPLE_RATE)), SAMPLE_RATE)
    return folder / "audio"


def measure(audio: Path, dest: Path) -> tuple[float, float, float]:
    """Return the mean length, and the encoder-seconds per useful second of Solfa and of padding."""
    codec = Counting()
    report = solfa.encode(audio, dest, codec=codec, segment_seconds=PADDED_SECONDS)
    padded = PADDED_SECONDS * report.clips
    return report.seconds / report.clips, codec.num_samples / SAMPLE_RATE / report.seconds, padded / report.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="count over these recordings, too")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    collections = {
        "1-30 s, even in seconds": rng.uniform(1, 30, options.clips),
        "1-30 s, even in the logarithm": np.exp(rng.uniform(0, np.log(30), options.clips)),
        "1-30 s, three quarters below 3 s": np.minimum(1 + rng.exponential(1.4, options.clips), 30),
    }
    print(f"{'collection':<32}{'mean s':>8}{'Solfa':>8}{'padded to 30 s':>16}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        folders = {title: make(lengths, work / str(len(title))) for title, lengths in collections.items()}
        if options.folder is not None:
            folders[options.folder.name] = options.folder
        for title, folder in folders.items():
            mean, ours, padded = measure(folder, work / f"{len(title)}.solfa")
            print(f"{title:<32}{mean:>8.1f}{ours:>8.3f}{padded:>16.2f}{padded / ours:>8.2f}")


if __name__ == "__main__":
    main()
