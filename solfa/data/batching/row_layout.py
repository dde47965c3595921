"""A batch before anything is read: which segment of which clip goes where in a grid of rows and frames.

row 0   [ clip 17 . . . . . . . . . . . ]        crop, pad: one segment per row
row 1   [ clip 4 . . . . . . |          ]        padded on the right

row 0   [ clip 9 . . . | clip 2 . . | cl]        pack: segments fill the rows; a clip may continue in the next
row 1   [ip 30 . . . . . . | clip 8 . . ]
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64


@dataclass(frozen=True, slots=True)
class Rows:
    """Segments, ordered by row and then by column, as parallel arrays (G of them).

    The arrays but `clips` are made for this batch alone, so that its tensors can be views of them.
    """

    num_rows: int
    num_columns: int
    """Frames in a row."""
    clips: Int64[np.ndarray, "G"]
    """Index of the clip."""
    starts: Int64[np.ndarray, "G"]
    """First frame within the clip."""
    slacks: Int64[np.ndarray, "G"]
    """How many frames later it may begin; the clip's own randomness decides on reading."""
    num_frames: Int64[np.ndarray, "G"]
    clip_frames: Int64[np.ndarray, "G"]
    """Frames of the whole clip."""
    rows: Int64[np.ndarray, "G"]
    columns: Int64[np.ndarray, "G"]
    """Where it begins in its row."""

    @property
    def is_full(self) -> bool:
        """Whether no row has padding."""
        return bool(self.num_frames.sum() == self.num_rows * self.num_columns)

    def gaps(self) -> Int64[np.ndarray, "G"]:
        """Count the frames of padding between each segment and the next, or the end of the last row."""
        begins = self.rows * self.num_columns + self.columns
        return np.asarray(np.diff(begins, append=self.num_rows * self.num_columns) - self.num_frames)


def deal(batch: Rows, rank: int, world_size: int) -> Rows:
    """Give one rank its share of a global batch: consecutive rows, so the shares in rank order make up the batch.

    The shares differ by at most one row and the first ranks get more, so no row is seen twice. If there are fewer rows
    than ranks, the last ranks get a row of padding: all ranks must make the same number of steps, because their
    processes exchange data in each, and no model has to handle an empty batch.
    """
    assert 0 <= rank < world_size
    if world_size == 1:
        return batch
    if rank >= batch.num_rows:
        return _padding(batch)
    size, extra = divmod(batch.num_rows, world_size)
    first = rank * size + min(rank, extra)
    last = first + size + (rank < extra)
    begin, end = np.searchsorted(batch.rows, [first, last])
    return Rows(
        num_rows=last - first,
        num_columns=batch.num_columns,
        clips=batch.clips[begin:end],
        starts=batch.starts[begin:end],
        slacks=batch.slacks[begin:end],
        num_frames=batch.num_frames[begin:end],
        clip_frames=batch.clip_frames[begin:end],
        rows=batch.rows[begin:end] - first,
        columns=batch.columns[begin:end],
    )


def _padding(batch: Rows) -> Rows:
    """Remove all frames from the first segment of a batch; the name of its clip stays, because each row has one."""
    starts, slacks, num_frames, rows, columns = np.zeros((5, 1), np.int64)
    return Rows(
        num_rows=1,
        num_columns=batch.num_columns,
        clips=batch.clips[:1],
        starts=starts,
        slacks=slacks,
        num_frames=num_frames,
        clip_frames=batch.clip_frames[:1],
        rows=rows,
        columns=columns,
    )
