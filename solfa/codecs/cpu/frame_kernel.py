"""The interface between Python and frames.c: activations, and convolutions that add up in an order that is given.

The system's C compiler builds it on first use; where there is none, `load_frame_kernel` finds nothing.
"""

import ctypes
import logging
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, final

from jaxtyping import Float32
from torch import Tensor

from solfa.nn.kernels.library import VECTORS, NoKernelError, load_library

_logger = logging.getLogger(__name__)
_SOURCES = (Path(__file__).with_name("frames.c"), VECTORS)
_NUMBERS = ("width_in", "width_out", "taps", "stride", "dilation", "block", "chain", "vectors", "starts_with_bias")


class _Convolution(ctypes.Structure):
    """What frames.c calls Convolution, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _NUMBERS),
        *((name, ctypes.c_void_p) for name in ("weights", "bias")),
    )


class Order(NamedTuple):
    """How the products of an output are added up: blocks of channels, in a block the taps, for a tap its channels."""

    block: int
    """Channels of a block."""
    chain: int
    """So many taps of blocks are added to one sum, product by product; the sums are then added to each other."""
    starts_with_bias: bool = False
    """The first sum starts with the bias; otherwise the bias is added to it at its end."""


@final
class FrameKernel:
    """The functions of frames.c."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.name = Path(library._name).stem
        library.solfa_lanes.restype = library.solfa_tile_vectors.restype = ctypes.c_int64
        self.lanes: int = library.solfa_lanes()
        self.tile_vectors: int = library.solfa_tile_vectors()
        self.convolve = library.solfa_convolve
        self.convolve.restype = None
        self.convolve.argtypes = [ctypes.POINTER(_Convolution), *[ctypes.c_void_p] * 3, ctypes.c_int64]
        self.elu, self.scale, self.square_and_add = library.solfa_elu, library.solfa_scale, library.solfa_square_and_add
        self.elu_bf16 = library.solfa_elu_bf16
        self.elu.argtypes = self.elu_bf16.argtypes = [*[ctypes.c_void_p] * 2, ctypes.c_int64]
        self.square_and_add.argtypes = [*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2]
        self.scale.argtypes = [*self.square_and_add.argtypes, ctypes.c_float]
        self.elu.restype = self.elu_bf16.restype = self.square_and_add.restype = None
        self.scale.restype = ctypes.c_int32

    def panel(self, width_out: int) -> int | None:
        """Find how many vectors of outputs are computed together; None if the outputs do not fill vectors."""
        widths = [vectors for vectors in (self.tile_vectors, 2, 1) if width_out % (vectors * self.lanes) == 0]
        return widths[0] if widths else None

    def __deepcopy__(self, memo: object) -> "FrameKernel":
        return self


@final
@dataclass(frozen=True)
class FrameConvolution:
    """A convolution as frames.c reads it, without padding."""

    kernel: FrameKernel
    weights: Float32[Tensor, "panels blocks taps block width"]
    bias: Float32[Tensor, "out"]
    stride: int
    dilation: int
    order: Order

    def __call__(
        self,
        x: Float32[Tensor, "1 in n"],
        num_frames: int,
        added: Float32[Tensor, "1 out m"] | None = None,
        out: Float32[Tensor, "1 out m"] | None = None,
    ) -> Float32[Tensor, "1 out m"]:
        """Convolve frames, the channels of each next to each other in memory, and add others to the result."""
        panels, blocks, taps, block, width = self.weights.shape
        out = x.new_empty(1, num_frames, panels * width).mT if out is None else out
        assert x.mT.is_contiguous() and out.mT.is_contiguous() and out.shape == (1, panels * width, num_frames)
        assert added is None or (added.mT.is_contiguous() and added.shape == out.shape)
        assert x.shape[-1] > (num_frames - 1) * self.stride + (taps - 1) * self.dilation
        numbers = (blocks * block, panels * width, taps, self.stride, self.dilation, *self.order[:2])
        vectors = width // self.kernel.lanes
        pointers = (self.weights.data_ptr(), self.bias.data_ptr())
        job = _Convolution(*numbers, vectors, self.order.starts_with_bias, *pointers)
        self.kernel.convolve(job, x.data_ptr(), None if added is None else added.data_ptr(), out.data_ptr(), num_frames)
        return out


def pack(
    kernel: FrameKernel,
    weight: Float32[Tensor, "out in k"],
    bias: Float32[Tensor, "out"] | None,
    stride: int,
    dilation: int,
    order: Order,
) -> FrameConvolution:
    """Lay out weights in the order in which they are read."""
    width_out, width_in, taps = weight.shape
    vectors = kernel.panel(width_out)
    assert vectors is not None and width_in % order.block == 0
    panels = weight.reshape(-1, vectors * kernel.lanes, width_in // order.block, order.block, taps)
    packed = panels.permute(0, 2, 4, 3, 1).contiguous()
    bias = weight.new_zeros(width_out) if bias is None else bias.contiguous()
    return FrameConvolution(kernel, packed, bias, stride, dilation, order)


@cache
def load_frame_kernel() -> FrameKernel | None:
    """Load the functions, compiled on first use; None where there is no compiler."""
    try:
        return FrameKernel(load_library("frames", _SOURCES))
    except NoKernelError as reason:
        _logger.info("convolutions of codecs are computed by PyTorch: %s", reason)
        return None
