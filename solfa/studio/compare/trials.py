"""What is heard, and in which order: pure functions of the names and a seed.

A listening test of two sides asks, clip by clip, which is better. One with a reference is like MUSHRA (ITU-R BS.1534):
the sides, the hidden reference and a low anchor are rated from 0 to 100, beside the reference that is named.
"""

import random
from collections.abc import Sequence
from typing import Literal, NamedTuple

Kind = Literal["pair", "rating"]
Stimulus = Literal["a", "b", "reference", "anchor"]
STIMULI: dict[Kind, tuple[Stimulus, ...]] = {"pair": ("a", "b"), "rating": ("a", "b", "reference", "anchor")}


class Trial(NamedTuple):
    """One clip, and what is heard at each place of the page."""

    name: str
    order: tuple[Stimulus, ...]


def plan_trials(names: Sequence[str], kind: Kind, seed: int, num: int) -> list[Trial]:
    """Choose `num` clips and put what is heard of each into an order of its own."""
    # Python promises that `shuffle` and `sample` of a seed stay what they are within a version only; the order of
    # every trial is therefore noted with its answer.
    chance = random.Random(f"solfa listening test {seed}")
    chosen = chance.sample(sorted(names), min(num, len(names)))
    return [Trial(name, tuple(chance.sample(STIMULI[kind], len(STIMULI[kind])))) for name in chosen]
