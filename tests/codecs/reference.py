"""The clip whose codes are pinned, and the file that pins them.

When a codec is released under a new name, its codes are written by

    python tests/codecs/reference.py NAME

and committed with it. They are never written again: a test that no longer agrees with them has found a change that
would make codes of today and of tomorrow mean different sounds.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from solfa.codecs.protocol import Codec

SAMPLE_RATE = 24_000
NUM_SAMPLES = 9_600


class Reference(NamedTuple):
    fingerprint: str
    codes: list[list[int]]
    """`[T][K]`"""


def reference_clip() -> NDArray[np.float32]:
    """Synthesise two tones and a decaying noise, 0.4 s, without anybody's random generator."""
    state, noise = 1, []
    for _ in range(NUM_SAMPLES):
        state = (1_103_515_245 * state + 12_345) % 2**31
        noise.append(state / 2**30 - 1.0)
    seconds = np.arange(NUM_SAMPLES) / SAMPLE_RATE
    low, high = (np.sin(2.0 * np.pi * hertz * seconds) for hertz in (220.0, 1_870.0))
    decaying = np.array(noise) * np.exp(-seconds / 0.08)
    return (0.25 * low + 0.1 * high * seconds / seconds[-1] + 0.2 * decaying).astype(np.float32)


def path_of(name: str) -> Path:
    """Find the file of a codec, or of one that chooses the nearest entries (`NAME:beam=1`)."""
    return Path(__file__).parent / "data" / f"{name.replace(':beam=1', '_nearest')}_reference.json"


def read_reference(name: str) -> Reference:
    return Reference(**json.loads(path_of(name).read_text(encoding="utf-8")))


def make_reference(name: str) -> Reference:
    from solfa.codecs.catalogue import load_codec

    codec = load_codec(name)
    return Reference(codec.fingerprint, reference_codes(codec))


def reference_codes(codec: "Codec") -> list[list[int]]:
    return codec.encode(torch.from_numpy(reference_clip())[None, None]).array[0].tolist()


def write_reference(name: str) -> None:
    """Write a line for every frame, so that a difference can be read."""
    made = make_reference(name)
    frames = ",\n".join(f"    {json.dumps(frame)}" for frame in made.codes)
    text = f'{{\n  "fingerprint": "{made.fingerprint}",\n  "codes": [\n{frames}\n  ]\n}}\n'
    path_of(name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_reference(sys.argv[1])
