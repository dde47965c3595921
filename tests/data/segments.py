"""The segments of a batch, each without its padding."""

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from solfa.data import Batch


class Segment(NamedTuple):
    id: str
    start: int
    array: Tensor


def segments_of(batch: Batch) -> Iterator[Segment]:
    """View each run of frames of one clip."""
    places = zip(batch.rows.tolist(), batch.columns.tolist(), batch.num_frames.tolist(), strict=True)
    for clip_id, start, (row, column, count) in zip(batch.ids, batch.starts.tolist(), places, strict=True):
        yield Segment(clip_id, start, batch.arrays[row, column : column + count])
