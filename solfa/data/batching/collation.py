"""Read the segments of a batch into tensors.

Codes become int64 and latents float32, whatever the dataset stores; padding is zeros.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int64, Num
from torch import Tensor

from solfa.data.batching.row_layout import Rows
from solfa.data.sources.clip_source import ClipSource, anticipate_clips
from solfa.data.stable_random import crop_start
from solfa.errors import StoreError


class RankShare(NamedTuple):
    """One rank's part of one global batch before it is read; `BatchDataset` is indexed by it."""

    seed: int
    epoch: int
    step: int
    part: Rows
    global_rows: int
    global_frames: int


@dataclass(frozen=True)
class Batch:
    """One rank's rows of a global batch. Its G segments are one per row, except when packed.

    >>> import numpy as np
    >>> from solfa.data import MemoryClip, MemoryClips, Pad, make_loader
    >>> clips = MemoryClips([MemoryClip("a", np.ones((3, 2), np.uint16)), MemoryClip("b", np.ones((5, 2), np.uint16))])
    >>> batch = next(iter(make_loader(clips, Pad(batch_size=2, shuffle=False))))
    >>> batch.arrays.shape, batch.ids, batch.num_frames.tolist()
    (torch.Size([2, 5, 2]), ('b', 'a'), [5, 3])
    >>> batch.mask.sum(dim=1).tolist()
    [5, 3]
    """

    arrays: Num[Tensor, "B T W"]
    """int64 codes or float32 latents; zero where `mask` is False."""
    segment_ids: Int64[Tensor, "B T"]
    """Number of the segment within its row, -1 for padding; attention can be limited to equal numbers."""
    ids: tuple[str, ...]
    captions: tuple[str | None, ...]
    metadata: tuple[Mapping[str, Any], ...]
    num_frames: Int64[Tensor, "G"]
    """Frames of each segment, without padding."""
    clip_frames: Int64[Tensor, "G"]
    """Frames of the whole clip that each segment is from."""
    starts: Int64[Tensor, "G"]
    """First frame of each segment within its clip."""
    rows: Int64[Tensor, "G"]
    columns: Int64[Tensor, "G"]
    """Where each segment begins in its row."""
    epoch: int
    step: int
    """Number of the global batch within the epoch."""
    global_rows: int
    """Rows of the global batch. Multiply a loss averaged over rows by `world_size * len(batch) / global_rows`, and the
    mean over ranks is the mean over the global batch."""
    global_frames: int
    """Frames of the global batch without padding, for a loss averaged over frames."""

    def __len__(self) -> int:
        return len(self.arrays)

    @property
    def is_padding(self) -> bool:
        """True for a rank that got no row of the global batch: it keeps step with one row that counts for nothing.

        The row has the name and caption of a clip that another rank has, but none of its frames.
        """
        return not bool(self.num_frames.any())

    @property
    def mask(self) -> Bool[Tensor, "B T"]:
        """True for frames, False for padding."""
        return self.segment_ids >= 0

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Batch":
        """Copy the tensors to a device."""
        moved = {name: tensor.to(device, non_blocking=non_blocking) for name, tensor in self._tensors().items()}
        return replace(self, **moved)  # type: ignore[arg-type]

    def pin_memory(self) -> "Batch":
        """Copy the tensors to page-locked memory; `DataLoader(pin_memory=True)` calls this."""
        return replace(self, **{name: tensor.pin_memory() for name, tensor in self._tensors().items()})  # type: ignore[arg-type]

    def _tensors(self) -> dict[str, Tensor]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def read_batch(source: ClipSource, share: RankShare) -> Batch:
    """Read one rank's share of a global batch."""
    part = share.part
    anticipate_clips(source, part.clips.tolist())
    arrays = _empty_arrays(source, part)
    segment_ids = np.full((part.num_rows, part.num_columns), -1, np.int64)
    starts = part.starts.copy()
    clips = [source[index] for index in part.clips.tolist()]
    previous_row, number = -1, 0
    for g, (clip, row, column, count) in enumerate(
        zip(clips, part.rows.tolist(), part.columns.tolist(), part.num_frames.tolist(), strict=True)
    ):
        if part.slacks[g]:
            starts[g] += crop_start(share.seed, share.epoch, clip.id, int(part.slacks[g]))
        number = number + 1 if row == previous_row else 0
        previous_row = row
        # numpy widens while it copies; torch would refuse uint16 arithmetic and warn about read-only memory.
        arrays[row, column : column + count] = clip.array[starts[g] : starts[g] + count]
        segment_ids[row, column : column + count] = number
    return Batch(
        arrays=torch.from_numpy(arrays),
        segment_ids=torch.from_numpy(segment_ids),
        ids=tuple(clip.id for clip in clips),
        captions=tuple(clip.caption for clip in clips),
        metadata=tuple(clip.metadata for clip in clips),
        num_frames=torch.tensor(part.num_frames),
        clip_frames=torch.tensor([len(clip.array) for clip in clips], dtype=torch.int64),
        starts=torch.from_numpy(starts),
        rows=torch.tensor(part.rows),
        columns=torch.tensor(part.columns),
        epoch=share.epoch,
        step=share.step,
        global_rows=share.global_rows,
        global_frames=share.global_frames,
    )


def _empty_arrays(source: ClipSource, part: Rows) -> Num[np.ndarray, "B T W"]:
    example = source[int(part.clips[0])].array  # all clips of a source are alike
    dtypes = {"u": np.int64, "i": np.int64, "f": np.float32}
    if example.dtype.kind not in dtypes or example.dtype == np.uint64:
        raise StoreError(f"cannot batch arrays of {example.dtype}; expected integer codes or float latents")
    return np.zeros((part.num_rows, part.num_columns, example.shape[1]), dtypes[example.dtype.kind])
