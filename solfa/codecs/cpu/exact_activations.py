"""The activations of codecs, with the bits that PyTorch gives them: ELU, and snake, x + sin^2(alpha x) / beta.

Pieces whose channels are next to each other (`solfa.codecs.cpu.frame_kernel`) are computed in C, if that gives the same
bits here, which is tried once. The sine itself is always that of the library behind PyTorch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from solfa.codecs.cpu.frame_kernel import FrameKernel, load_frame_kernel
from solfa.codecs.cpu.mkl_sine import LIMIT, find_sine

Check: TypeAlias = Callable[[FrameKernel], bool]
"""Whether C and PyTorch give the same bits."""


def elu(x: Float[Tensor, "1 C n"]) -> Float[Tensor, "1 C n"]:
    """Compute the ELU."""
    kernel = kernel_for(x, EXACT_ELUS)
    return F.elu(x) if kernel is None else elu_by(kernel, x, torch.empty_like(x))


def elu_(x: Float[Tensor, "1 C n"]) -> Float[Tensor, "1 C n"]:
    """Compute the ELU in place."""
    kernel = kernel_for(x, EXACT_ELUS)
    return F.elu_(x) if kernel is None else elu_by(kernel, x, x)


@dataclass(frozen=True)
class ExactSnake:
    """x + sin^2(alpha x) / beta, rounded operation by operation as the plain module rounds it."""

    alpha: Float[Tensor, "1 C 1"]
    inverse: Float[Tensor, "1 C 1"]

    def __call__(self, x: Float[Tensor, "1 C n"]) -> Float[Tensor, "1 C n"]:
        kernel = kernel_for(x, EXACT_SNAKES)
        return self.by_torch(x) if kernel is None else self.by(kernel, x)

    def by_torch(self, x: Float[Tensor, "1 C n"]) -> Float[Tensor, "1 C n"]:
        wave = torch.mul(x, self.alpha).sin_()
        return wave.mul_(wave).mul_(self.inverse).add_(x)

    def by(self, kernel: FrameKernel, x: Float[Tensor, "1 C n"]) -> Float[Tensor, "1 C n"]:
        wave = torch.empty_like(x)
        num_channels, num_frames = x.shape[1:]
        is_small = kernel.scale(x.data_ptr(), self.alpha.data_ptr(), wave.data_ptr(), num_frames, num_channels, LIMIT)
        sine = find_sine() if is_small else None
        if sine is None:
            wave.sin_()
        else:
            sine(wave.numel(), wave.data_ptr(), wave.data_ptr())
        kernel.square_and_add(wave.data_ptr(), self.inverse.data_ptr(), x.data_ptr(), num_frames, num_channels)
        return wave


def elu_by(kernel: FrameKernel, x: Float[Tensor, "1 C n"], out: Float[Tensor, "1 C n"]) -> Float[Tensor, "1 C n"]:
    """Compute the ELU in C; `out` may be `x`."""
    (kernel.elu_bf16 if x.dtype == torch.bfloat16 else kernel.elu)(x.data_ptr(), out.data_ptr(), x.numel())
    return out


def kernel_for(x: Float[Tensor, "1 C n"], checks: Mapping[torch.dtype, Check]) -> FrameKernel | None:
    """Find the kernel if it can read `x` and computes exactly what PyTorch does, by the check of the dtype."""
    if x.dtype not in checks or x.device.type != "cpu" or not x.mT.is_contiguous():
        return None
    kernel = load_frame_kernel()
    return kernel if kernel is not None and x.shape[1] % kernel.lanes == 0 and checks[x.dtype](kernel) else None


@cache
def has_exact_elu(kernel: FrameKernel) -> bool:
    """Compare the two ELUs, bit by bit."""
    x = numbers_to_try()
    return torch.equal(elu_by(kernel, x, torch.empty_like(x)), F.elu(x))


@cache
def has_exact_elu_bf16(kernel: FrameKernel) -> bool:
    """Compare the two ELUs of every bfloat16 but those that are no number."""
    x = every_bfloat16()
    x = x.masked_fill(x.isnan(), 0)
    return torch.equal(elu_by(kernel, x, torch.empty_like(x)), F.elu(x))


@cache
def has_exact_snake(kernel: FrameKernel) -> bool:
    """Compare the two snakes, bit by bit."""
    x = numbers_to_try().clamp(-LIMIT / 4, LIMIT / 4)
    channels = torch.linspace(0.2, 3.0, x.shape[1]).view(1, -1, 1)
    snake = ExactSnake(channels, (channels + 1e-9).reciprocal())
    return torch.equal(snake.by(kernel, x), snake.by_torch(x))


EXACT_ELUS: Mapping[torch.dtype, Check] = {torch.float32: has_exact_elu, torch.bfloat16: has_exact_elu_bf16}
EXACT_SNAKES: Mapping[torch.dtype, Check] = {torch.float32: has_exact_snake}


def numbers_to_try() -> Float[Tensor, "1 64 n"]:
    """Draw numbers of all sizes and both signs, frame by frame."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.empty(1, 2048, 64).uniform_(-30.0, 5.0, generator=generator).exp2()
    return (sizes * torch.randn(sizes.shape, generator=generator)).mT


def every_bfloat16() -> Float[Tensor, "1 64 n"]:
    """List all 65,536 of them."""
    return torch.arange(1 << 16).to(torch.int16).view(torch.bfloat16).view(1, -1, 64).mT
