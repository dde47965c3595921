"""A loader that resumes exactly, made of plain torch parts.

    loader = make_loader(open_dataset("music.solfa"), Crop(num_frames=256, batch_size=32), seed=0, num_workers=4)
    for epoch in range(loader.epoch, 100):
        for batch in loader:                      # the rest of the epoch
            ...
            checkpoint = loader.state_dict()      # counts delivered batches, not those that workers prefetched

A state can be loaded with any number of workers and ranks: the global batches that follow are the same.
In a loop with its own `DataLoader`, use the parts:

    sampler = GlobalBatchSampler(source, mode, seed=0)
    for batch in DataLoader(BatchDataset(source), sampler=sampler, batch_size=None):
        ...
        sampler.advance_past(batch)               # without this, the next iteration starts at the same batch
"""

import multiprocessing
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from pydantic import NonNegativeInt
from torch.utils.data import DataLoader, Dataset

from solfa.config import Config, parse_config
from solfa.data.batching.collation import Batch, RankShare, read_batch
from solfa.data.batching.epoch_plan import EpochPlan
from solfa.data.batching.kernel.library import batch_kernel
from solfa.data.batching.modes import Crop, Mode, Pack, Pad, plan_epoch
from solfa.data.batching.prefetch import Prefetch
from solfa.data.batching.row_layout import deal
from solfa.data.sources.clip_group import grouping
from solfa.data.sources.clip_source import ClipSource, WeightedSource, files_of_source
from solfa.errors import ConfigError, SolfaError, StoreError
from solfa.store.remote_files import RemoteFiles


class LoaderState(Config):
    """A loader's position in the endless sequence of global batches, and which sequence that is."""

    digest: str
    mode: Mode
    seed: int
    epoch: NonNegativeInt
    step: NonNegativeInt
    """The next global batch of the epoch."""


class BatchDataset(Dataset[Batch]):
    """A torch dataset whose items are batches, indexed by the shares that `GlobalBatchSampler` yields.

    >>> import solfa
    >>> from torch.utils.data import DataLoader
    >>> from solfa.data import BatchDataset, GlobalBatchSampler, Pad
    >>> dataset = solfa.open_dataset("music.solfa")
    >>> sampler = GlobalBatchSampler(dataset, Pad(batch_size=2), seed=0)
    >>> for batch in DataLoader(BatchDataset(dataset), sampler=sampler, batch_size=None):
    ...     sampler.advance_past(batch)  # what was delivered; sampler.state_dict() is the position
    >>> sampler.epoch
    1
    """

    def __init__(self, source: ClipSource) -> None:
        self._group = grouping(source)

    def __getitem__(self, share: RankShare) -> Batch:
        return read_batch(self._group, share)


class _Answers(Dataset["Batch | SolfaError"]):
    """Batches, or the sentence why there is none, which a worker's exception would bury in its traceback."""

    def __init__(self, batches: BatchDataset) -> None:
        self._batches = batches

    def __getitem__(self, share: RankShare) -> Batch | SolfaError:
        try:
            return self._batches[share]
        except SolfaError as error:
            return error


class GlobalBatchSampler:
    """This rank's shares of the global batches, from the current position to the end of its epoch.

    Iterating does not move the position, because a `DataLoader` reads ahead of what it delivers; `advance_past` does.
    Every rank makes the same number of steps. If the rows of a batch cannot be divided evenly by `world_size`, the
    first ranks get one more. A batch smaller than `world_size` is refused unless `pad_ranks` is set: then the last
    ranks get a row of padding, which the loop must not count (`Batch.is_padding`); training on it would teach silence.

    >>> import numpy as np
    >>> from solfa.data import Crop, GlobalBatchSampler, MemoryClip, MemoryClips
    >>> clips = MemoryClips([MemoryClip(f"{n}", np.full((100, 4), n, np.uint16)) for n in range(8)])
    >>> sampler = GlobalBatchSampler(clips, Crop(num_frames=50, batch_size=4), rank=1, world_size=2)
    >>> [(share.part.num_rows, share.global_rows) for share in sampler]
    [(2, 4), (2, 4)]
    """

    def __init__(
        self,
        source: ClipSource,
        mode: Crop | Pad | Pack,
        *,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        pad_ranks: bool = False,
    ) -> None:
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank: expected 0 to world_size - 1, found rank {rank} and world_size {world_size}")
        if mode.batch_size is not None and mode.batch_size < world_size:
            raise ConfigError(
                f"a global batch of {mode.batch_size} rows is too small for {world_size} ranks; "
                f"set batch_size to {world_size} or more"
            )
        self._digest, self._num_frames = source.digest, source.num_frames
        self._weights = source.weights if isinstance(source, WeightedSource) else None
        self._mode, self._seed, self._rank, self._world_size = mode, seed, rank, world_size
        self._pad_ranks = pad_ranks
        self._move_to(epoch=0, step=0)

    def __len__(self) -> int:
        """Count the remaining steps of the epoch."""
        return self.num_steps - self.step

    def __iter__(self) -> Iterator[RankShare]:
        epoch, plan = self.epoch, self._plan
        for step in range(self.step, len(plan)):
            batch = plan.batch(step)
            part = deal(batch, self._rank, self._world_size)
            yield RankShare(self._seed, epoch, step, part, batch.num_rows, int(batch.num_frames.sum()))

    @property
    def num_steps(self) -> int:
        """Count the steps of the whole epoch, the same on every rank."""
        return len(self._plan)

    def prefetch(self, files: RemoteFiles) -> Prefetch:
        """Begin to fetch the files that the rest of the epoch needs, the first ones first."""
        epoch, plan = self.epoch, self._plan
        return Prefetch(plan, files, lambda: self.step if self.epoch == epoch else len(plan))

    def advance_past(self, batch: Batch) -> None:
        """Move past a delivered batch; after the last of an epoch comes the first of the next."""
        if batch.epoch == self.epoch and batch.step + 1 < self.num_steps:
            self.step = batch.step + 1
        else:
            self._move_to(batch.epoch, batch.step + 1)

    def state_dict(self) -> dict[str, Any]:
        """Describe the position in plain values, the same on every rank."""
        state = LoaderState(digest=self._digest, mode=self._mode, seed=self._seed, epoch=self.epoch, step=self.step)
        return state.model_dump(mode="json")

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Go to the position of `state_dict()`, which must belong to the same clips, mode and seed."""
        state = parse_config(LoaderState, values, "loader state")
        if state.digest != self._digest:
            raise StoreError(
                f"loader state: saved with a dataset of digest {state.digest[:16]}, but this one has "
                f"{self._digest[:16]}; open the manifest and selection it was saved with, or start a new epoch"
            )
        for name, saved, current in (("mode", state.mode, self._mode), ("seed", state.seed, self._seed)):
            if saved != current:
                raise ConfigError(
                    f"loader state: saved with {name} {saved!r}, but this loader has {current!r}; use the same"
                )
        self._move_to(state.epoch, state.step)

    def _move_to(self, epoch: int, step: int) -> None:
        plan = self._plan_of(epoch)
        if step > len(plan):
            raise ConfigError(f"loader state: found step {step} of epoch {epoch}, which has only {len(plan)} steps")
        if step == len(plan):
            epoch, step = epoch + 1, 0
            plan = self._plan_of(epoch)
        self.epoch, self.step = epoch, step
        self._plan: EpochPlan = plan

    def _plan_of(self, epoch: int) -> EpochPlan:
        plan = plan_epoch(self._mode, self._num_frames, self._digest, self._seed, epoch, self._weights)
        fewest, ranks = plan.fewest_rows(), self._world_size
        if fewest < ranks and not self._pad_ranks:
            raise ConfigError(
                f"a batch of epoch {epoch} has fewer rows ({fewest}) than there are ranks ({ranks}); "
                "set drop_last to leave it out, choose another batch_size, or use fewer ranks"
            )
        return plan


class Loader:
    """Iterates over the rest of an epoch, then over the next; its state counts delivered batches."""

    def __init__(
        self,
        dataloader: "DataLoader[Batch | SolfaError]",
        sampler: GlobalBatchSampler,
        files: RemoteFiles | None = None,
    ) -> None:
        self._dataloader, self._sampler, self._files = dataloader, sampler, files

    def __len__(self) -> int:
        """Count the remaining steps of the epoch."""
        return len(self._sampler)

    def __iter__(self) -> Iterator[Batch]:
        prefetch = None if self._files is None else self._sampler.prefetch(self._files)
        try:
            for batch in self._batches():
                if isinstance(batch, SolfaError):
                    raise batch
                self._sampler.advance_past(batch)
                yield batch
        finally:
            if prefetch is not None:
                prefetch.close()

    def _batches(self) -> Iterable[Batch | SolfaError]:
        """Read the rest of the epoch; without workers, as the DataLoader does, but without its profiling."""
        loader = self._dataloader
        is_plain = loader.num_workers == 0 and not loader.pin_memory
        return map(loader.dataset.__getitem__, self._sampler) if is_plain else loader

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self._sampler.epoch

    @property
    def step(self) -> int:
        """The number of the next batch within its epoch."""
        return self._sampler.step

    @property
    def num_steps(self) -> int:
        """Count the steps of the whole epoch."""
        return self._sampler.num_steps

    def state_dict(self) -> dict[str, Any]:
        """Describe the position after the last delivered batch in plain values, the same on every rank."""
        return self._sampler.state_dict()

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Go to a saved position; start a new iteration afterwards."""
        self._sampler.load_state_dict(values)


def make_loader(
    source: ClipSource,
    mode: Crop | Pad | Pack,
    *,
    seed: int = 0,
    rank: int = 0,
    world_size: int = 1,
    pad_ranks: bool = False,
    num_workers: int = 0,
    pin_memory: bool = False,
    persistent_workers: bool = False,
    multiprocessing_context: str | None = None,
) -> Loader:
    """Load batches of a dataset; the global batches do not depend on the number of workers and ranks.

    >>> import solfa
    >>> from solfa.data import Crop, make_loader
    >>> loader = make_loader(solfa.open_dataset("music.solfa"), Crop(num_frames=150, batch_size=4), seed=0)
    >>> batch = next(iter(loader))
    >>> batch.arrays.shape, batch.arrays.dtype
    (torch.Size([4, 150, 8]), torch.int64)
    >>> state = loader.state_dict()  # a few plain values; load_state_dict(state) continues after this batch
    >>> state["epoch"], state["step"]
    (0, 1)
    """
    sampler = GlobalBatchSampler(source, mode, seed=seed, rank=rank, world_size=world_size, pad_ranks=pad_ranks)
    if num_workers:
        batch_kernel()  # before they are forked, so that they have it
    files = files_of_source(source)
    if files is not None and num_workers and multiprocessing_context is None:
        # Clients of object stores do not survive a fork.
        multiprocessing_context = "spawn" if sys.platform == "win32" else "forkserver"
        if sys.platform != "win32":
            # The server that workers are forked from imports torch once; otherwise each of them does, in each epoch.
            multiprocessing.get_context("forkserver").set_forkserver_preload([__name__])
    dataloader = DataLoader(
        _Answers(BatchDataset(source)),
        sampler=sampler,
        batch_size=None,
        num_workers=num_workers,
        pin_memory=pin_memory,
        persistent_workers=persistent_workers,
        multiprocessing_context=multiprocessing_context,
        # A separate generator, because a DataLoader draws a number each time it is iterated: from the global one, a
        # resumed run would draw once more than an uninterrupted one, and its dropout would then differ.
        generator=torch.Generator(),
    )
    return Loader(dataloader, sampler, files)
