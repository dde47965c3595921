"""How fast the layers of EnCodec 24 kHz, DAC and Oobleck are convolved on one core: PyTorch's way and in C.

    python benchmarks/convolution_speed.py [--repeats 9]

GFLOP/s of CPU time (the median, and the best in brackets), interleaved, one thread, pieces of half a megabyte. The time
of PyTorch has the change of layout to oneDNN's and back in it, as in an encoder. The last column counts outputs that
differ.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch.nn import functional as F

from solfa.codecs.cpu.frame_kernel import load_frame_kernel, pack
from solfa.codecs.cpu.sum_order import LayerShape, find_order

SHAPES = [
    LayerShape(*numbers, padding=0, has_bias=True)
    for numbers in (
        (1, 32, 7, 1, 1),
        (32, 16, 3, 1, 1),
        (16, 32, 1, 1, 1),
        (32, 64, 4, 2, 1),
        (64, 32, 3, 1, 1),
        (64, 64, 1, 1, 1),
        (64, 128, 8, 4, 1),
        (128, 256, 10, 5, 1),
        (256, 256, 1, 1, 1),
        (256, 512, 16, 8, 1),
        (512, 128, 7, 1, 1),
        (64, 64, 7, 1, 9),
        (256, 256, 7, 1, 3),
    )
]
PIECE = 1 << 17


def clock(function: Callable[[], torch.Tensor]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(1)
    kernel = load_frame_kernel()
    if kernel is None:
        raise SystemExit("there is no C compiler here")
    print(f"{'in, out, taps, stride, dilation':<34}{'PyTorch':>16}{'in C':>16}{'differ':>10}")
    for shape in SHAPES:
        torch.manual_seed(0)
        x = torch.randn(1, shape.width_in, max(PIECE // shape.width_in, shape.lengths[0]))
        weight = torch.randn(shape.width_out, shape.width_in, shape.taps) / (shape.width_in * shape.taps) ** 0.5
        bias = torch.randn(shape.width_out)
        order = find_order(kernel, shape)
        if order is None:
            print(f"{shape[:5]!s:<34} no order gives PyTorch's bits")
            continue
        packed, frames = pack(kernel, weight, bias, *shape[3:5], order), x.mT.contiguous().mT

        def by_torch(x=x, weight=weight, bias=bias, shape=shape) -> torch.Tensor:
            return F.conv1d(x, weight, bias, shape.stride, 0, shape.dilation)

        plain = by_torch()

        def in_c(packed=packed, frames=frames, num_frames=plain.shape[-1]) -> torch.Tensor:
            return packed(frames, num_frames)

        work = 2e-9 * plain.numel() * shape.width_in * shape.taps
        rates = [(work / clock(by_torch), work / clock(in_c)) for _ in range(options.repeats)]
        cells = [f"{statistics.median(side):.0f} ({max(side):.0f})" for side in zip(*rates, strict=True)]
        print(f"{shape[:5]!s:<34}{cells[0]:>16}{cells[1]:>16}{int((in_c() != plain).sum()):>10}", flush=True)


if __name__ == "__main__":
    main()
