"""Find the order in which PyTorch adds up the products of a convolution or of a linear layer, by trying.

A sum of floating-point numbers depends on its order, and codes must not change. What PyTorch calls (oneDNN for several
taps, a matrix product for one) keeps one order for all outputs of a layer; which one depends on the processor, the
library's version and the layer. So a layer of the same shape with random weights is computed by PyTorch and in each
order that was ever seen, over several lengths with their ends: the compiled kernel takes over if, and only if, one of
them is equal to the last bit. That is found out once per machine, and for each version and setting that could change
it: it takes EnCodec a third of a second, which a short job would spend in every process.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from solfa.codecs.cpu.frame_kernel import FrameKernel, Order, pack
from solfa.errors import ConfigError
from solfa.nn.kernels.machine_memory import finding_file, recall, remember

# torch hands a convolution to oneDNN only above this many input elements (use_mkldnn in ATen's Convolution.cpp).
ONEDNN_ELEMENTS = 20480
FEWEST_ROWS = 8
"""Of linear layers: fewer are computed in other ways (one to three by MKL on AMD's processors), and soon done."""
_OUTPUTS_AT_ONCE = 28
"""oneDNN computes so many with AVX-512. If none is left over at the end of a strided layer that pads, it takes another
kernel, with another order (found by comparing all lengths up to 720)."""
_CHAINS = (192, 128, 384, 336, 320, 256, 448, 512, 96, 64)
"""Numbers of products after which matrix products start a new sum; the first two on AMD processors, where 193 to 384
products make two equal sums."""


class LayerShape(NamedTuple):
    """What a convolution's rounding may depend on."""

    width_in: int
    width_out: int
    taps: int
    stride: int
    dilation: int
    padding: int
    has_bias: bool

    @property
    def span(self) -> int:
        return (self.taps - 1) * self.dilation + 1

    @property
    def lengths(self) -> tuple[int, int, int]:
        """Numbers of samples to try: from the fewest for which oneDNN is asked and computes as for many others."""
        fewest = max(ONEDNN_ELEMENTS // self.width_in + 1, self.span + 15 * self.stride)
        fewest = max(fewest, 33 * self.stride) if self.padding else fewest
        return fewest, fewest + 11 * self.stride + 1, 2 * fewest + 16 * self.stride + 3

    def has_usual_kernel(self, num_in: int) -> bool:
        """Say whether PyTorch computes a clip of so many samples in the way that was compared."""
        num_out = (num_in + 2 * self.padding - self.span) // self.stride + 1
        is_even = self.padding > 0 and self.stride > 1 and num_out % _OUTPUTS_AT_ONCE == 0
        return num_in >= self.lengths[0] and not is_even

    def by_torch(self, x: Float[Tensor, "1 in n"], weight: Tensor, bias: Tensor | None) -> list[Tensor]:
        """Convolve as the plain module does."""
        return [F.conv1d(x, weight, bias, self.stride, self.padding, self.dilation)]


class LinearShape(NamedTuple):
    """What the rounding of a linear layer may depend on; its rows are frames."""

    width_in: int
    width_out: int
    has_bias: bool

    taps: int = 1
    stride: int = 1
    dilation: int = 1
    padding: int = 0

    @property
    def lengths(self) -> tuple[int, ...]:
        """Numbers of rows to try: with MKL, all from 4 to 700 were found to have one order."""
        return FEWEST_ROWS, FEWEST_ROWS + 1, 15, 33, 96, 250

    def by_torch(self, x: Float[Tensor, "1 in n"], weight: Tensor, bias: Tensor | None) -> list[Tensor]:
        """Multiply as the plain module does, with the numbers of a row or those of a column next to each other."""
        rows, weight = x[0].mT, weight[..., 0]
        ways = (rows, rows.contiguous(), rows.mT.contiguous().mT)
        return [F.linear(way, weight, bias).mT.unsqueeze(0) for way in ways]


AnyShape: TypeAlias = LayerShape | LinearShape


def orders(shape: AnyShape) -> Iterator[Order]:
    """List the orders that were seen, the likely ones first."""
    width = shape.width_in
    for block in dict.fromkeys((min(16, width), min(8, width))):
        if width % block:
            continue
        blocks = width // block
        if shape.taps > 1:
            yield Order(block, shape.taps)
            yield Order(block, shape.taps * blocks)
        else:
            yield Order(block, blocks)
            for chain in dict.fromkeys((*_CHAINS, width // 2)):
                if 0 < chain < width and chain % block == 0:
                    yield Order(block, chain // block)
        yield Order(block, shape.taps * blocks, starts_with_bias=True)
    if shape.taps > 1:
        yield Order(width, shape.taps)


@cache
def find_order(kernel: FrameKernel, shape: AnyShape) -> Order | None:
    """Find the order whose sums are equal to PyTorch's with one thread, by trying or from memory; None if none is."""
    if kernel.panel(shape.width_out) is None:
        return None
    path = finding_file("order", kernel.name, shape, shape.lengths, list(orders(shape)))
    found = recall(path) or remember(path, {"layer": shape._asdict(), "order": try_orders(kernel, shape)})
    if "order" in found and found["order"] is None:
        return None
    for order in orders(shape):
        if found.get("order") == list(order):
            return order
    raise ConfigError(f"{path}: expected `order` to be one that is tried for {shape}, found {found}; remove it")


def try_orders(kernel: FrameKernel, shape: AnyShape) -> Order | None:
    """Compare what PyTorch computes with each order; None if no order has its bits."""
    generator = torch.Generator().manual_seed(0)
    size = (shape.width_out, shape.width_in, shape.taps)
    weight = torch.randn(size, generator=generator) / (shape.width_in * shape.taps) ** 0.5
    bias = torch.randn(shape.width_out, generator=generator) if shape.has_bias else None
    inputs = [torch.randn(1, shape.width_in, num, generator=generator) for num in shape.lengths]
    padding = (shape.padding, shape.padding)
    expected = [shape.by_torch(x, weight, bias) for x in inputs]
    frames = [F.pad(x, padding).mT.contiguous().mT for x in inputs]
    for order in orders(shape):
        packed = pack(kernel, weight, bias, shape.stride, shape.dilation, order)
        pairs = zip(frames, expected, strict=True)
        if all(torch.equal(packed(x, one.shape[-1]), one) for x, wanted in pairs for one in wanted):
            return order
    return None
