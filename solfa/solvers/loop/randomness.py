"""Save and restore every random generator of a process, and draw without disturbing them."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from solfa.data.stable_random import stable_key


def seed_all(*parts: str | int) -> None:
    """Seed Python, numpy and torch (all devices) from names and numbers."""
    key = stable_key(*parts)
    random.seed(key)
    np.random.seed(key % 2**32)
    torch.manual_seed(key % 2**63)


def random_state() -> dict[str, Any]:
    """Return the state of all generators as values that `torch.load(weights_only=True)` can read."""
    version, numbers, gauss = random.getstate()
    numpy_state = np.random.get_state(legacy=False)
    assert isinstance(numpy_state, dict)
    words = numpy_state["state"]
    state: dict[str, Any] = {
        "python": [version, list(numbers), gauss],
        "numpy": [
            torch.from_numpy(words["key"].astype(np.int64)),
            int(words["pos"]),
            int(numpy_state["has_gauss"]),
            float(numpy_state["gauss"]),
        ],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    if torch.backends.mps.is_available():
        state["mps"] = torch.mps.get_rng_state()
    return state


def restore_random_state(state: dict[str, Any]) -> None:
    """Restore a saved state, skipping generators of devices that are not here."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state(("MT19937", keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    if "mps" in state and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"])


@contextmanager
def own_randomness(*parts: str | int) -> Iterator[None]:
    """Draw from generators seeded by `parts`, leaving the outer ones untouched."""
    before = random_state()
    seed_all(*parts)
    try:
        yield
    finally:
        restore_random_state(before)
