"""Randomness that depends on what is drawn, never on who draws it.

Every draw starts from a hash of names and numbers. From numpy only the raw bits of a bit generator are used, which it
promises never to change, so a run can resume under another version and still see the same batches.
"""

import hashlib
import struct
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Int64

KEY_BYTES = 16


def stable_key(*parts: str | int) -> int:
    """Hash names and numbers to 128 bits, the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b(_content(*parts), digest_size=KEY_BYTES).digest(), "little")


def _content(*parts: str | int) -> bytes:
    # The lengths keep ("a", "bc") and ("ab", "c") apart.
    texts = [str(part) for part in parts]
    return "".join(f"{len(text)}:{text}" for text in texts).encode("utf-8", "surrogatepass")


@lru_cache(maxsize=4)
def crop_prefix(seed: int, epoch: int) -> bytes:
    """Return what is hashed before the id of a clip to draw the first frame of its crop."""
    return _content("crop", seed, epoch)


def crop_starts(
    seed: int, epoch: int, clip_ids: Sequence[str], slacks: Int64[np.ndarray, "G"]
) -> Int64[np.ndarray, "G"]:
    """Draw the first frame of each clip's crop, uniformly from 0 to its slack inclusive: `key * (slack + 1) >> 64`.

    `key` is the upper half of `stable_key("crop", seed, epoch, clip_id)`.
    """
    # A whole generator for one number would cost 18 us per clip, as much as reading it; the hash alone costs 1.
    begun, keys = hashlib.blake2b(crop_prefix(seed, epoch), digest_size=KEY_BYTES), []
    for clip_id in clip_ids:
        key = begun.copy()
        key.update(f"{len(clip_id)}:{clip_id}".encode("utf-8", "surrogatepass"))  # _content(clip_id), in half the time
        keys.append(key.digest())
    # In whole numbers of Python: 64 by 64 bits do not fit numpy's, and 32 of them do not pay for its calls.
    bits = struct.unpack(f"<{2 * len(keys)}Q", b"".join(keys))[1::2]
    starts = [key * (slack + 1) >> 64 for key, slack in zip(bits, slacks.tolist(), strict=True)]
    return np.array(starts, np.int64)


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
