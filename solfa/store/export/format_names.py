"""The formats that a dataset can be exported to, and how large their files may get."""

from collections.abc import Iterator
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from pydantic import Field

from solfa.config import Config


class ExportFormat(StrEnum):
    """The tools that read the export."""

    STABLE_AUDIO = "stable-audio"
    MUSICCAPS = "musiccaps"
    NPY = "npy"
    WEBDATASET = "webdataset"
    PARQUET = "parquet"


class PartLimits(Config):
    """When a tar or Parquet file is full: at whichever limit comes first."""

    max_clips: int = Field(default=20_000, ge=1)
    max_bytes: int = Field(default=1 << 30, ge=1)
    """Bytes of arrays; a larger clip gets a file of its own."""


def part_ranges(clip_bytes: npt.NDArray[np.int64], limits: PartLimits) -> Iterator[range]:
    """Cut clips into consecutive parts; depends on the sizes alone, so that repeating it gives the same parts."""
    start, filled = 0, 0
    for index, size in enumerate(clip_bytes.tolist()):
        if index > start and (index - start >= limits.max_clips or filled + size > limits.max_bytes):
            yield range(start, index)
            start, filled = index, 0
        filled += size
    if start < len(clip_bytes):
        yield range(start, len(clip_bytes))
