"""How clips of different lengths become batches: crop them, pad them, or pack them end to end.

The global batches of an epoch are a pure function of the dataset's digest, the mode, the seed and the epoch. Sizes are
those of the *global* batch: ranks and workers share it and never change it.
"""

from typing import Annotated, Literal

import numpy as np
from jaxtyping import Int64
from pydantic import Field, PositiveInt, model_validator

from solfa.config import Config
from solfa.data.batching.epoch_plan import (
    ClipPlan,
    EpochPlan,
    PackPlan,
    clip_order,
    cut_by_budget,
    repeat_starts,
    sort_windows,
)
from solfa.data.sources.clip_source import DrawWeights
from solfa.data.stable_random import Shuffler
from solfa.errors import ConfigError, StoreError


class Crop(Config):
    """Every row is a crop of `num_frames` frames of one clip; a shorter clip is padded on the right.

    >>> from solfa.data import Crop
    >>> Crop(num_frames=150, batch_size=32, drop_last=True)
    Crop(kind='crop', num_frames=150, batch_size=32, random_start=True, shuffle=True, drop_last=True)
    """

    kind: Literal["crop"] = "crop"
    num_frames: PositiveInt
    batch_size: PositiveInt
    random_start: bool = True
    """Draw the start of the crop from (seed, epoch, clip id); otherwise it starts where the clip does."""
    shuffle: bool = True
    drop_last: bool = False
    """Leave out the clips that do not fill a batch; which ones depends on the shuffle."""

    def plan(
        self, num_frames: Int64[np.ndarray, "clips"], shuffler: Shuffler, weights: DrawWeights | None = None
    ) -> EpochPlan:
        """Cut an order of the clips into batches."""
        order = clip_order(len(num_frames), shuffler if self.shuffle else None, weights)
        if self.drop_last:
            order = order[: len(order) // self.batch_size * self.batch_size]
        begins, ends = _equal_cuts(len(order), self.batch_size)
        starts = None
        if weights is not None and self.random_start:
            starts = repeat_starts(order, num_frames - self.num_frames, shuffler)
        return ClipPlan(num_frames, order, begins, ends, self.num_frames, self.random_start, starts)


class Pad(Config):
    """Every row is a whole clip, padded to the longest of its batch; clips of similar length share a batch.

    The clips of about `window_batches` batches are drawn at random and sorted by length. A larger window pads less but
    mixes less; with 100 batches and lengths spread evenly from 50 to 1,500 frames, 1 % of the frames are padding.
    When shuffling, a window is at most a quarter of the clips: a single one would give the same batches every epoch.

    >>> import solfa
    >>> from solfa.data import Pad, make_loader
    >>> dataset = solfa.open_dataset("music.solfa")
    >>> max(batch.mask.numel() for batch in make_loader(dataset, Pad(max_frames_per_batch=2_500))) <= 2_500
    True
    """

    kind: Literal["pad"] = "pad"
    batch_size: PositiveInt | None = None
    max_frames_per_batch: PositiveInt | None = None
    """Instead of `batch_size`: as many clips as fit, counting rows times the length of the longest clip."""
    window_batches: PositiveInt = 100
    shuffle: bool = True
    drop_last: bool = False
    """Leave out the clips that do not fill a batch; only with `batch_size`."""

    @model_validator(mode="after")
    def _one_size(self) -> "Pad":
        if (self.batch_size is None) == (self.max_frames_per_batch is None):
            raise ValueError("expected either batch_size or max_frames_per_batch")
        if self.drop_last and self.batch_size is None:
            raise ValueError("drop_last needs batch_size: with max_frames_per_batch, no batch is incomplete")
        return self

    def plan(
        self, num_frames: Int64[np.ndarray, "clips"], shuffler: Shuffler, weights: DrawWeights | None = None
    ) -> EpochPlan:
        """Sort windows of clips by length, cut them into batches, and shuffle the batches."""
        order = clip_order(len(num_frames), shuffler if self.shuffle else None, weights)
        if self.batch_size is not None:
            if self.drop_last:
                # Before sorting: afterwards, the clips left out would always be short ones.
                order = order[: len(order) // self.batch_size * self.batch_size]
            window_clips = self.batch_size * self._batches_in_window(len(order) // self.batch_size)
            order = sort_windows(order, num_frames, window_clips)
            begins, ends = _equal_cuts(len(order), self.batch_size)
        else:
            budget = self._checked_budget(num_frames)
            total = int(num_frames[order].sum())
            window_clips = max(1, self._batches_in_window(total // budget) * budget * len(order) // total)
            order = sort_windows(order, num_frames, window_clips)
            ends = np.array(cut_by_budget(num_frames[order], window_clips, budget), np.int64)
            begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        if self.shuffle:
            batches = shuffler.permutation(len(begins))
            begins, ends = begins[batches], ends[batches]
        return ClipPlan(num_frames, order, begins, ends, crop_frames=None, random_start=False)

    def _batches_in_window(self, num_batches: int) -> int:
        return min(self.window_batches, max(1, num_batches // 4)) if self.shuffle else self.window_batches

    def _checked_budget(self, num_frames: Int64[np.ndarray, "clips"]) -> int:
        assert self.max_frames_per_batch is not None
        longest = int(num_frames.argmax())
        if num_frames[longest] > self.max_frames_per_batch:
            raise ConfigError(
                f"max_frames_per_batch is {self.max_frames_per_batch}, but clip {longest} has {num_frames[longest]} "
                "frames; raise the limit, select shorter clips, or use crop or pack"
            )
        return self.max_frames_per_batch


class Pack(Config):
    """The clips of an epoch are laid end to end and cut into rows of exactly `num_frames` frames.

    A clip may start in one row and continue in the next. Only the end of the last row is padded.

    >>> import solfa
    >>> from solfa.data import Pack, make_loader
    >>> packed = next(iter(make_loader(solfa.open_dataset("music.solfa"), Pack(num_frames=1_000, batch_size=2))))
    >>> packed.arrays.shape, bool(packed.mask.all())
    (torch.Size([2, 1000, 8]), True)
    """

    kind: Literal["pack"] = "pack"
    num_frames: PositiveInt
    batch_size: PositiveInt
    """Rows in a batch."""
    shuffle: bool = True
    drop_last: bool = False
    """Leave out the last frames if they do not fill a row, and the last rows if they do not fill a batch."""

    def plan(
        self, num_frames: Int64[np.ndarray, "clips"], shuffler: Shuffler, weights: DrawWeights | None = None
    ) -> EpochPlan:
        """Lay an order of the clips end to end."""
        order = clip_order(len(num_frames), shuffler if self.shuffle else None, weights)
        ends = np.cumsum(num_frames[order])
        if self.drop_last:
            num_rows = int(ends[-1]) // (self.num_frames * self.batch_size) * self.batch_size
        else:
            num_rows = -(-int(ends[-1]) // self.num_frames)
        return PackPlan(order, ends, self.num_frames, self.batch_size, num_rows)


Mode = Annotated[Crop | Pad | Pack, Field(discriminator="kind")]


def plan_epoch(
    mode: Crop | Pad | Pack,
    num_frames: Int64[np.ndarray, "clips"],
    digest: str,
    seed: int,
    epoch: int,
    weights: DrawWeights | None = None,
) -> EpochPlan:
    """Plan the global batches of one epoch: the same arguments give the same batches on any machine."""
    if not len(num_frames):
        raise StoreError("expected clips to batch, found no clips in the dataset; check the selection")
    if num_frames.min() < 1:
        raise StoreError(f"clip {int(num_frames.argmin())} has {num_frames.min()} frames; leave out empty clips")
    plan = mode.plan(num_frames, Shuffler(digest, seed, epoch), weights)
    if not len(plan):
        raise ConfigError(
            f"drop_last leaves no batch of {mode.batch_size}: the dataset has {len(num_frames)} clips with "
            f"{int(num_frames.sum())} frames; use smaller batches or turn drop_last off"
        )
    return plan


def _equal_cuts(count: int, size: int) -> tuple[Int64[np.ndarray, "batches"], Int64[np.ndarray, "batches"]]:
    begins = np.arange(0, count, size, dtype=np.int64)
    return begins, np.minimum(begins + size, count)
