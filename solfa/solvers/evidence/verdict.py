"""Whether a fine-tune did anything, as a pure function of the losses of recordings before and after it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from solfa.ops.recording_bootstrap import LEVEL, interval_of, mean_draws
from solfa.spelling import plural

LEAST_SHARE = 0.001
"""A loss that moves by less than this share of itself does not count as moved, however sure that is."""
NUM_DRAWS = 2000

Conclusion = Literal["it changed", "it did not change anything", "it memorised"]


class Judged(NamedTuple):
    """The loss of one recording before and after, and how much it counts (its frames)."""

    recording: str
    before: float
    after: float
    weight: float


class Estimate(NamedTuple):
    """A mean over recordings, and the interval that it would fall into had other recordings been drawn."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class LossChange:
    """The loss of some recordings before and after."""

    before: Estimate
    after: Estimate
    difference: Estimate
    """After minus before, recording by recording."""
    num_recordings: int

    @property
    def share(self) -> Estimate:
        """The difference as a share of the loss before."""
        whole = abs(self.before.value) or 1.0
        return Estimate(*(part / whole for part in self.difference))

    @property
    def direction(self) -> Literal[-1, 0, 1]:
        """-1 if the loss fell, 1 if it rose, 0 if that cannot be told from nothing."""
        if abs(self.share.value) < LEAST_SHARE or self.difference.low <= 0 <= self.difference.high:
            return 0
        return -1 if self.difference.value < 0 else 1


class Verdict(NamedTuple):
    """What a run did, in three words and in a sentence."""

    outcome: Conclusion
    sentence: str


def compare_losses(judged: Sequence[Judged], seed: int = 0) -> LossChange | None:
    """Average the losses of recordings, with bootstrap intervals over the recordings; None without any."""
    if not judged:
        return None
    weights = np.array([one.weight for one in judged])
    losses = np.array([[one.before, one.after, one.after - one.before] for one in judged]).T
    means = losses @ weights / weights.sum()
    drawn = mean_draws(losses, NUM_DRAWS, seed, weights)
    before, after, difference = (
        Estimate(float(mean), *interval_of(float(mean), draws)) for mean, draws in zip(means, drawn, strict=True)
    )
    return LossChange(before, after, difference, len(judged))


def judge(held_out: LossChange | None, train: LossChange | None) -> Verdict:
    """Decide from the losses of recordings that were held out and of some that were trained on.

    It memorised if the training loss fell and the held-out loss rose; it changed if either moved; a loss has moved if
    its interval does not hold 0 and it is more than `LEAST_SHARE`.
    """
    held, learned = (change.direction if change is not None else 0 for change in (held_out, train))
    told = "; ".join(
        _told(change, name) for change, name in ((held_out, "held-out"), (train, "training")) if change is not None
    )
    if held > 0 and learned < 0:
        return Verdict("it memorised", f"it memorised: {told}")
    if held or learned:
        worse = " for the worse" if held > 0 else ""
        return Verdict("it changed", f"it changed{worse}: {told}")
    advice = "train for longer, or raise the learning rate"
    outcome: Conclusion = "it did not change anything"
    return Verdict(outcome, f"{outcome}: {told or 'there was nothing to judge by'}; {advice}")


def _told(change: LossChange, name: str) -> str:
    moved = {-1: "fell", 0: "stayed", 1: "rose"}[change.direction]
    share = change.share
    numbers = f"from {change.before.value:.4g} to {change.after.value:.4g} ({share.value:+.2%}"
    between = f", {LEVEL:.0%} interval {share.low:+.2%} to {share.high:+.2%}" if change.num_recordings > 1 else ""
    return f"the {name} loss {moved}, {numbers}{between}, {plural(change.num_recordings, 'recording')})"
