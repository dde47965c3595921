"""The global batches of one epoch: an order of clips and where to cut it. Rows are computed step by step, on demand.

A plan holds a few integers per clip and no Python objects, so a million clips take tens of megabytes.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int64

from solfa.data.batching.row_layout import Rows
from solfa.data.sources.clip_source import DrawWeights
from solfa.data.stable_random import Shuffler
from solfa.errors import ConfigError


@runtime_checkable
class EpochPlan(Protocol):
    """The global batches of one epoch."""

    def __len__(self) -> int:
        """Count the global batches, that is, the steps of the epoch."""
        ...

    def fewest_rows(self) -> int:
        """Count the rows of the smallest global batch; there must be at least one batch."""
        ...

    def batch(self, step: int) -> Rows: ...


@dataclass(frozen=True)
class ClipPlan:
    """One clip per row: batch `i` holds the clips `order[begins[i]:ends[i]]`."""

    num_frames: Int64[np.ndarray, "clips"]
    order: Int64[np.ndarray, "kept"]
    begins: Int64[np.ndarray, "batches"]
    ends: Int64[np.ndarray, "batches"]
    crop_frames: int | None
    """Width of the rows; None means the longest clip of the batch."""
    random_start: bool
    drawn_starts: Int64[np.ndarray, "kept"] | None = None
    """Where the crop begins if the clip already came up in this epoch; -1 leaves it to the clip's own randomness."""

    def __len__(self) -> int:
        return len(self.begins)

    def fewest_rows(self) -> int:
        return int((self.ends - self.begins).min())

    def batch(self, step: int) -> Rows:
        these = slice(int(self.begins[step]), int(self.ends[step]))
        clips = self.order[these]
        count, whole = len(clips), self.num_frames[clips]
        width = int(whole.max()) if self.crop_frames is None else self.crop_frames
        num_frames = np.minimum(whole, width)
        starts, slacks = np.zeros(count, np.int64), whole - num_frames
        if self.drawn_starts is not None:
            drawn = self.drawn_starts[these]
            starts, slacks = np.maximum(drawn, 0), np.where(drawn < 0, slacks, 0)
        return Rows(
            num_rows=count,
            num_columns=width,
            clips=clips,
            starts=starts,
            slacks=slacks if self.random_start else np.zeros(count, np.int64),
            num_frames=num_frames,
            clip_frames=whole,
            rows=np.arange(count, dtype=np.int64),
            columns=np.zeros(count, np.int64),
        )


@dataclass(frozen=True)
class PackPlan:
    """All clips end to end, cut into rows of `row_frames` and batches of `batch_size` rows."""

    order: Int64[np.ndarray, "clips"]
    ends: Int64[np.ndarray, "clips"]
    """Where each clip of `order` ends in the sequence of all frames."""
    row_frames: int
    batch_size: int
    num_rows: int

    def __len__(self) -> int:
        return -(-self.num_rows // self.batch_size)

    def fewest_rows(self) -> int:
        return self.num_rows - (len(self) - 1) * self.batch_size

    def batch(self, step: int) -> Rows:
        first_row = step * self.batch_size
        last_row = min(first_row + self.batch_size, self.num_rows)
        start = first_row * self.row_frames
        stop = min(last_row * self.row_frames, int(self.ends[-1]))
        # Cut the frames from `start` to `stop` wherever a clip ends and wherever a row ends.
        first, last = self.ends.searchsorted([start, stop], side="right").tolist()
        ends = self.ends[first : last + 1]
        row_borders = np.arange(start, stop, self.row_frames, dtype=np.int64)
        borders = np.concatenate([row_borders, ends[: last - first], [stop]])
        borders.sort()
        lengths = borders[1:] - borders[:-1]
        is_first = lengths > 0  # of borders that fall together
        begins, num_frames = borders[:-1][is_first], lengths[is_first]
        places = ends.searchsorted(begins, side="right") + first
        clip_begins = np.where(places > 0, self.ends[places - 1], 0)
        rows, columns = np.divmod(begins, self.row_frames)
        return Rows(
            num_rows=last_row - first_row,
            num_columns=self.row_frames,
            clips=self.order[places],
            starts=begins - clip_begins,
            slacks=np.zeros(len(begins), np.int64),
            num_frames=num_frames,
            clip_frames=self.ends[places] - clip_begins,
            rows=rows - first_row,
            columns=columns,
        )


def clip_order(count: int, shuffler: Shuffler | None, weights: DrawWeights | None = None) -> Int64[np.ndarray, "count"]:
    """Order the clips of an epoch; None keeps them as they are. With weights, some come up often, others not at all."""
    if weights is None:
        return np.arange(count, dtype=np.int64) if shuffler is None else shuffler.permutation(count)
    if shuffler is None:
        raise ConfigError(
            "weights need shuffle: without it every clip comes up once; shuffle, or leave the weights out"
        )
    return draw_order(weights, shuffler)


def draw_order(weights: DrawWeights, shuffler: Shuffler) -> Int64[np.ndarray, "clips"]:
    """Draw as many clips as there are, each as often as its weight says, off by less than one.

    Systematic resampling: the weights are laid end to end, and a randomly shifted comb of evenly spaced points picks
    from them. The clips of a part are kept together, so the number drawn from a part is also off by less than one.
    """
    count = len(weights.clips)
    # Shuffled within a part: otherwise the comb would pick the same few combinations of neighbours in every epoch.
    order = shuffler.permutation(count)
    order = order[np.argsort(weights.parts[order], kind="stable")]
    edges = np.cumsum(weights.clips[order])
    edges = edges / edges[-1] * count
    picked = np.ceil(edges - shuffler.fraction()).astype(np.int64)
    drawn = np.repeat(order, np.diff(picked, prepend=0))
    return np.asarray(drawn[shuffler.permutation(count)], np.int64)


def repeat_starts(
    order: Int64[np.ndarray, "kept"], slacks: Int64[np.ndarray, "clips"], shuffler: Shuffler
) -> Int64[np.ndarray, "kept"]:
    """Draw where the crops of repeated clips begin; -1 for the first occurrence of each clip."""
    starts = shuffler.integers(np.maximum(slacks, 0)[order])
    starts[np.unique(order, return_index=True)[1]] = -1
    return starts


def sort_windows(
    order: Int64[np.ndarray, "kept"], num_frames: Int64[np.ndarray, "clips"], window_clips: int
) -> Int64[np.ndarray, "kept"]:
    """Sort each window of the order from the longest clip to the shortest."""
    result = order.copy()
    for begin in range(0, len(order), window_clips):
        window = order[begin : begin + window_clips]
        result[begin : begin + window_clips] = window[np.argsort(-num_frames[window], kind="stable")]
    return result


def cut_by_budget(sorted_frames: Int64[np.ndarray, "kept"], window_clips: int, max_frames: int) -> list[int]:
    """Find where batches end so that rows times longest clip stay within `max_frames`, in windows sorted downwards."""
    ends = []
    begin = 0
    while begin < len(sorted_frames):
        window_end = min((begin // window_clips + 1) * window_clips, len(sorted_frames))
        begin = min(begin + max_frames // int(sorted_frames[begin]), window_end)
        ends.append(begin)
    return ends
