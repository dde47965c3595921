"""The interface between Python and the C kernel: the structures of network.c, field by field, and their memory."""

import ctypes
import mmap
import sys
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

LANES, BLOCK, PANEL, BURST = 8, 16, 64, 8
_HUGE_PAGE = 1 << 21

_int = ctypes.c_int64
_floats = ctypes.c_void_p


class Tier(ctypes.Structure):
    """One rate of the network, for a number of clips."""

    _fields_ = (
        *((name, _int) for name in ("width", "padded", "inner", "modes", "glu", "num_down", "num_up")),
        *((name, _int) for name in ("pool", "phase", "burst")),
        *((name, _floats) for name in ("down", "down_pool", "up_pool", "up")),
        *((name, _floats) for name in ("memory", "waiting", "ready", "pooled", "normed", "hidden", "skips")),
    )


class Grid(ctypes.Structure):
    """The grid that a mixture of logistics is drawn on; zero mixtures mean a categorical head."""

    _fields_ = (
        *((name, _int) for name in ("num_classes", "num_mixtures")),
        *((name, ctypes.c_float) for name in ("steps", "log_steps", "smallest_log_scale", "largest_mean")),
        *((name, ctypes.c_float) for name in ("low_log_scale", "high_log_scale", "far")),
        ("borders", _floats),
    )


class Path(ctypes.Structure):
    """The linear path; an order of zero means that there is none."""

    _fields_ = (
        *((name, _int) for name in ("order", "num_borders")),
        *((name, _floats) for name in ("coefficients", "borders", "amplitudes", "residuals", "whitening")),
        *((name, ctypes.c_float) for name in ("error", "largest_log_scale")),
        *((name, _floats) for name in ("past", "predictions")),
    )


class Network(ctypes.Structure):
    """The whole network, for a number of clips."""

    _fields_ = (
        *((name, _int) for name in ("num_clips", "num_tiers", "num_classes", "num_outputs", "padded_outputs")),
        ("tiers", ctypes.POINTER(Tier)),
        *((name, _floats) for name in ("embedding", "norm", "projection", "x", "outputs", "scratch")),
        ("grid", Grid),
        ("path", Path),
    )


def padded(width: int) -> int:
    """Round a width up to whole blocks."""
    return -(-width // BLOCK) * BLOCK


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
