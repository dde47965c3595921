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

from solfa.data.batching.kernel.library import Segments, batch_kernel
from solfa.data.batching.row_layout import Rows
from solfa.data.sources.clip_group import ClipGroup, Group, Told
from solfa.data.stable_random import crop_prefix, crop_starts
from solfa.errors import StoreError

_WIDE: dict[str, type[np.int64] | type[np.float32]] = {"u": np.int64, "i": np.int64, "f": np.float32}
"""What an array becomes in a batch, by the kind of its numbers."""


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
    told: Told
    """What is known about the clip of each segment."""
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
    def ids(self) -> tuple[str, ...]:
        """The id of the clip that each segment is from."""
        return self.told.ids

    @property
    def captions(self) -> tuple[str | None, ...]:
        """The caption of each of these clips, read when you ask for it."""
        return self.told.captions

    @property
    def metadata(self) -> tuple[Mapping[str, Any], ...]:
        """The metadata of each of these clips, read when you ask for it."""
        return self.told.metadata

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


def read_batch(group: Group, share: RankShare) -> Batch:
    """Read one rank's share of a global batch."""
    part = share.part
    clips = group(part.clips)
    told = Told(clips)
    starts = _draw_starts(share, clips, told) if part.slacks.any() else part.starts
    segments = Segments(
        starts=torch.from_numpy(starts),
        num_frames=torch.from_numpy(part.num_frames),
        rows=torch.from_numpy(part.rows),
        columns=torch.from_numpy(part.columns),
    )
    arrays, segment_ids = _fill(part, clips, segments)
    return Batch(
        arrays=arrays,
        segment_ids=segment_ids,
        told=told,
        num_frames=segments.num_frames,
        clip_frames=torch.from_numpy(part.clip_frames),
        starts=segments.starts,
        rows=segments.rows,
        columns=segments.columns,
        epoch=share.epoch,
        step=share.step,
        global_rows=share.global_rows,
        global_frames=share.global_frames,
    )


def _draw_starts(share: RankShare, clips: ClipGroup, told: Told) -> Int64[np.ndarray, "G"]:
    kernel, ids, part = batch_kernel(), clips.mapped_ids(), share.part
    if kernel is None or ids is None:
        return np.asarray(part.starts + crop_starts(share.seed, share.epoch, told.ids, part.slacks))
    return kernel.draw_starts(crop_prefix(share.seed, share.epoch), ids, part.starts, part.slacks)


def _fill(part: Rows, clips: ClipGroup, segments: Segments) -> tuple[Num[Tensor, "B T W"], Int64[Tensor, "B T"]]:
    kernel, arrays = batch_kernel(), clips.mapped_arrays()
    if kernel is not None and arrays is not None:
        return kernel.fill(part.num_rows, part.num_columns, segments, arrays)
    starts = segments.starts.numpy()
    windows = clips.windows(starts, starts + part.num_frames)
    gaps = None if part.is_full else part.gaps()
    joined = _join_windows(part, windows, gaps, clips.width())
    return torch.from_numpy(joined), torch.from_numpy(_number_segments(part, gaps))


def _join_windows(
    part: Rows, windows: list[Num[np.ndarray, "_"]], gaps: Int64[np.ndarray, "G"] | None, width: int
) -> Num[np.ndarray, "B T W"]:
    """Lay segments and padding end to end: that is what rows are, and one operation copies all of them."""
    dtype = windows[0].dtype  # all clips of a source are alike
    if dtype.kind not in _WIDE or dtype == np.uint64:
        raise StoreError(f"cannot batch arrays of {dtype}; expected integer codes or float latents")
    pieces = windows
    if gaps is not None:
        zeros = np.zeros(int(gaps.max()) * width, dtype)
        padding = [zeros[:size] for size in (gaps * width).tolist()]
        pieces = [piece for pair in zip(windows, padding, strict=True) for piece in pair]
    # numpy widens while it copies; torch would refuse uint16 arithmetic and warn about read-only memory.
    joined = np.concatenate(pieces, dtype=_WIDE[dtype.kind])
    return joined.reshape(part.num_rows, part.num_columns, width)


def _number_segments(part: Rows, gaps: Int64[np.ndarray, "G"] | None) -> Int64[np.ndarray, "B T"]:
    """Write the number of its segment within the row to every frame, and -1 where there is none."""
    if gaps is None and len(part.rows) == part.num_rows:
        return np.zeros((part.num_rows, part.num_columns), np.int64)
    numbers = np.arange(len(part.rows)) - np.searchsorted(part.rows, part.rows)
    counts = part.num_frames
    if gaps is not None:
        numbers = np.stack([numbers, np.full_like(numbers, -1)], axis=1).ravel()
        counts = np.stack([counts, gaps], axis=1).ravel()
    return np.repeat(numbers, counts).reshape(part.num_rows, part.num_columns)
