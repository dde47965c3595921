"""Randomness that depends on what is drawn, never on who draws it.

Every draw starts from a hash of names and numbers. From numpy only the raw bits of a bit generator are used, which it
promises never to change, so a run can resume under another version and still see the same batches.
"""

import hashlib

import numpy as np
from jaxtyping import Int64


def stable_key(*parts: str | int) -> int:
    """Hash names and numbers to 128 bits, the same in every process and on every machine."""
    # The lengths keep ("a", "bc") and ("ab", "c") apart.
    texts = [str(part) for part in parts]
    content = "".join(f"{len(text)}:{text}" for text in texts).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=16).digest(), "little")


def crop_start(seed: int, epoch: int, clip_id: str, slack: int) -> int:
    """Draw the first frame of a clip's crop, uniformly from 0 to `slack` inclusive."""
    # A whole generator for one number would cost 18 us per clip, as much as reading it; the hash alone costs 1.
    bits = stable_key("crop", seed, epoch, clip_id) >> 64
    return bits * (slack + 1) >> 64


class Shuffler:
    """The permutations and numbers of one epoch, in the order in which they are requested."""

    def __init__(self, digest: str, seed: int, epoch: int) -> None:
        self._bits = np.random.PCG64(stable_key("order", digest, seed, epoch))

    def permutation(self, count: int) -> Int64[np.ndarray, "count"]:
        """Draw an order of `count` things."""
        return np.argsort(self._bits.random_raw(count), kind="stable").astype(np.int64, copy=False)

    def fraction(self) -> float:
        """Draw a 24-bit number from 0 up to 1: it stays exact when added to or subtracted from a count of clips."""
        return (self._bits.random_raw() >> 40) * 2.0**-24

    def integers(self, highest: Int64[np.ndarray, "count"]) -> Int64[np.ndarray, "count"]:
        """Draw a whole number from 0 to each of `highest` inclusive."""
        fractions = (self._bits.random_raw(len(highest)) >> np.uint64(11)) * 2.0**-53
        return np.asarray(fractions * (highest + 1), np.float64).astype(np.int64)
