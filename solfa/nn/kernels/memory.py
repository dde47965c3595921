"""Memory that C code reads front to end: one block, in large pages where the system has them."""

import mmap
import sys
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

_HUGE_PAGE = 1 << 21


def joined(parts: Sequence[Float32[Tensor, "_"]]) -> tuple[Float32[Tensor, "_"], list[int]]:
    """Copy the parts into one block of memory; also return the address of each.

    In large pages if the system has them: 16 MB of weights take more small pages than a processor's TLB can hold.
    """
    sizes = [part.numel() for part in parts]
    num_bytes = max(1, sum(sizes)) * 4
    memory = mmap.mmap(-1, num_bytes + _HUGE_PAGE)
    if sys.platform == "linux" and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(memory, dtype=np.float32)
    begin = -whole.ctypes.data % _HUGE_PAGE // 4
    buffer = torch.from_numpy(whole[begin : begin + sum(sizes)])
    torch.cat(list(parts), out=buffer)
    return buffer, [buffer.data_ptr() + 4 * before for before in accumulate(sizes[:-1], initial=0)]
