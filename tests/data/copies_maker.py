"""A folder of melodies with copies in it, encoded; and what is a copy of what."""

from pathlib import Path

import numpy as np
import soundfile

import solfa
from tests.ops.test_landmarks import melody

RATE = 16_000


def write_collection(folder: Path) -> Path:
    """Write four melodies, a cut and quiet copy of one, and a recording that plays one loop three times."""
    folder.mkdir(parents=True)
    takes = {f"take{seed}.wav": melody(6, RATE, seed)[0] for seed in range(4)}
    takes["copy.wav"] = 0.2 * takes["take1.wav"][round(1.5037 * RATE) :]
    takes["loop.wav"] = np.tile(melody(6, RATE, seed=9)[0], 3)
    for name, sound in takes.items():
        soundfile.write(folder / name, 0.1 * sound, RATE)
    return folder


def encode_collection(folder: Path, **options: object) -> Path:
    """Encode it in clips of 6 s."""
    codec = solfa.load_codec(f"mulaw:bits=8,sample_rate={RATE}")
    dest = folder.parent / "takes.solfa"
    solfa.encode(folder, dest, codec=codec, segment_seconds=6, **options)  # type: ignore[arg-type]
    return dest
