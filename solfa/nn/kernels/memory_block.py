"""Memory that C code reads front to end: one block, in large pages where the system has them."""

import mmap
import sys
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

_HUGE_PAGE = 1 << 21
_LINE = 64


def block_of(num_bytes: int) -> UInt8[Tensor, "_"]:
    """Allocate memory in large pages if the system has them: weights take more small pages than a TLB can hold.

    Nothing of it is used before it is written to.
    """
    if sys.platform == "linux" and hasattr(mmap, "MADV_HUGEPAGE"):
        # Shared memory, which is what Python maps unless told otherwise, has no large pages.
        memory = mmap.mmap(-1, num_bytes + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
    else:
        memory = mmap.mmap(-1, num_bytes + _HUGE_PAGE)
    whole = np.frombuffer(memory, dtype=np.uint8)
    begin = -whole.ctypes.data % _HUGE_PAGE
    return torch.from_numpy(whole[begin : begin + num_bytes])


def joined(parts: Sequence[Float32[Tensor, "_"]]) -> tuple[Float32[Tensor, "_"], list[int]]:
    """Copy the parts into one block of memory; also return the address of each."""
    sizes = [part.numel() for part in parts]
    buffer = block_of(max(1, sum(sizes)) * 4).view(torch.float32)[: sum(sizes)]
    torch.cat(list(parts), out=buffer)
    return buffer, [buffer.data_ptr() + 4 * before for before in accumulate(sizes[:-1], initial=0)]


class BlockBuilder:
    """A block that is filled part by part, so that what is copied can be freed before the next part comes."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._block = block_of(max(1, sum(-(-size // _LINE) * _LINE for size in sizes)))
        self._used = 0

    def put(self, part: UInt8[Tensor, "_"]) -> UInt8[Tensor, "_"]:
        """Copy a part behind the last one and return it there."""
        begin = self._used
        self._used += -(-part.numel() // _LINE) * _LINE
        kept = self._block[begin : begin + part.numel()]
        return kept.copy_(part)
