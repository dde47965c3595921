"""Count what a run has encoded, shard by shard, so that nothing counts twice: in the end, commits have the last word.

An encoder that is lost in the middle of a shard has reported clips that another one encodes and reports again.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from solfa.encoding.progress import Progress, Totals
from solfa.store.schema import Commit


@dataclass
class _Tally:
    encoder: int
    clips: int = 0
    seconds: float = 0.0


class ShardTallies:
    """The totals of a run, made of what the latest encoder of each shard has reported."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.totals = Totals()
        self._clock = clock
        self._tallies: dict[int, _Tally] = {}

    def add(self, encoder: int, progress: Progress) -> None:
        """Add a report; what another encoder has reported about the same shard no longer counts."""
        if progress.shard is not None:
            tally = self._tallies.setdefault(progress.shard, _Tally(encoder))
            if tally.encoder != encoder:
                self._take_back(tally)
                tally = self._tallies[progress.shard] = _Tally(encoder)
            tally.clips += progress.clips
            tally.seconds += progress.seconds
        self.totals.add(progress, self._clock())

    def settle(self, commits: Iterable[Commit], sample_rate: int) -> Totals:
        """Replace what was reported about shards by what their commits say; those of other runs do not count."""
        for commit in commits:
            if commit.shard not in self._tallies:
                continue
            self._take_back(self._tallies.pop(commit.shard))
            self.totals.clips += commit.num_clips + commit.num_failed
            self.totals.seconds += commit.num_samples / sample_rate
        return self.totals

    def _take_back(self, tally: _Tally) -> None:
        self.totals.clips -= tally.clips
        self.totals.seconds -= tally.seconds
