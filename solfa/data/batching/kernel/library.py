"""The compiled functions of a batch: where they are compiled from, and how they are called."""

import ctypes
import logging
from functools import cache
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Int64, Num
from torch import Tensor

from solfa.errors import StoreError
from solfa.nn.kernels.library import NoKernelError, load_library
from solfa.store.stored_group import MappedArrays

_logger = logging.getLogger(__name__)
_SOURCES = tuple(Path(__file__).with_name(name) for name in ("batches.c", "blake2b.h"))
_KINDS = {"uint16": (0, np.int64), "uint32": (1, np.int64), "float16": (2, np.float32)} | {"float32": (3, np.float32)}
"""What batches.c calls the numbers of an array, and what they become."""


class Segments(NamedTuple):
    """Which frames of the clips of a batch go where in it, contiguous, in the order in which batches.c takes them."""

    starts: Int64[Tensor, "G"]
    num_frames: Int64[Tensor, "G"]
    rows: Int64[Tensor, "G"]
    columns: Int64[Tensor, "G"]


@cache
def batch_kernel() -> "BatchKernel | None":
    """Load the functions, compiled on first use; None where there is no compiler."""
    try:
        return BatchKernel(load_library("batches", _SOURCES))
    except NoKernelError as reason:
        _logger.info("batches are filled by numpy: %s", reason)
        return None


@final
class BatchKernel:
    """Fills batches from clips that are mapped into memory."""

    def __init__(self, library: ctypes.CDLL) -> None:
        number, pointer = ctypes.c_int64, ctypes.c_void_p
        self._fill, self._draw = library.solfa_fill_batch, library.solfa_draw_starts
        self._fill.argtypes = [number, *[pointer] * 6, *[number] * 4, pointer, pointer]
        self._fill.restype = number
        self._draw.argtypes = [number, *[pointer] * 3, ctypes.c_char_p, number, pointer]
        self._draw.restype = None

    def draw_starts(
        self,
        prefix: bytes,
        ids: Int64[np.ndarray, "2 G"],
        starts: Int64[np.ndarray, "G"],
        slacks: Int64[np.ndarray, "G"],
    ) -> Int64[np.ndarray, "G"]:
        """Add to each start what `stable_random.crop_starts` draws for the ids at these addresses."""
        drawn, count = np.array(starts, np.int64), len(starts)
        assert ids.shape == (2, count) and len(slacks) == count
        places = _address(ids)
        self._draw(count, places, places + 8 * count, _address(slacks), prefix, len(prefix), _address(drawn))
        return drawn

    def fill(
        self, num_rows: int, num_columns: int, segments: Segments, arrays: MappedArrays
    ) -> tuple[Num[Tensor, "B T W"], Int64[Tensor, "B T"]]:
        """Copy and widen the segments of a batch, and number those of each row; the rest is 0 and -1."""
        (kind, dtype), count, places = _KINDS[arrays.dtype], segments.starts.numel(), _address(arrays.places)
        starts, num_frames, rows, columns = segments
        assert arrays.places.shape == (2, count)
        assert num_frames.numel() == count and rows.numel() == count and columns.numel() == count
        # Not torch.empty: it aligns memory, and what it frees is not soon found again.
        filled = torch.from_numpy(np.empty((num_rows, num_columns, arrays.width), dtype))
        numbers = torch.from_numpy(np.empty((num_rows, num_columns), np.int64))
        placed = self._fill(
            *(count, places, places + 8 * count),
            *(starts.data_ptr(), num_frames.data_ptr(), rows.data_ptr(), columns.data_ptr()),
            *(num_rows, num_columns, arrays.width, kind, filled.data_ptr(), numbers.data_ptr()),
        )
        if placed != count:
            raise StoreError(
                f"expected {num_frames[placed]} frames from frame {starts[placed]} of a clip, which has "
                f"{arrays.places[1, placed]}; run `solfa verify`, and open the dataset again"
            )
        return filled, numbers


def _address(array: Int64[np.ndarray, "..."]) -> int:
    assert array.dtype == np.int64 and array.flags.c_contiguous
    return torch.from_numpy(array).data_ptr()  # in two thirds of the time of `array.ctypes.data`
