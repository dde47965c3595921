"""ConvNeXt blocks over time (arXiv 2201.03545, in one dimension as in Vocos, arXiv 2306.00814).

    x ──► depthwise conv over frames ──► layer norm ──► linear, GELU, linear ──► times a learned scale ──► + x

Frames are rows `[B, T, D]`, so that the linear layers, which take most of the time, are plain matrix products.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class DepthwiseConv(nn.Module):
    """One filter per channel over the frames around each, with zeros beyond the ends."""

    def __init__(self, width: int, kernel_size: int) -> None:
        super().__init__()
        if kernel_size % 2 == 0:
            raise ValueError(f"depthwise convolution: expected an odd kernel_size, found {kernel_size}")
        self.weight = nn.Parameter(torch.empty(width, 1, 1, kernel_size).uniform_(-1, 1) / kernel_size**0.5)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        # As a one-row image in channels-last order, so that nothing has to be transposed.
        picture = x.mT.unsqueeze(2)
        y = F.conv2d(picture, self.weight, self.bias, padding=(0, self.weight.shape[-1] // 2), groups=len(self.weight))
        return y.squeeze(2).mT


class ConvNextBlock(nn.Module):
    """A depthwise convolution and a two-layer perceptron, added to their input."""

    def __init__(self, width: int, inner: int, kernel_size: int, scale: float) -> None:
        super().__init__()
        self.mix = DepthwiseConv(width, kernel_size)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.rise = nn.Linear(width, inner)
        self.fall = nn.Linear(inner, width)
        self.scale = nn.Parameter(torch.full((width,), scale))

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        y: Tensor = self.fall(F.gelu(self.rise(self.norm(self.mix(x)))))
        return x + self.scale * y


class ConvNextStack(nn.Module):
    """Blocks between two layer norms."""

    def __init__(self, width: int, inner: int, num_blocks: int, kernel_size: int) -> None:
        super().__init__()
        self.first_norm = nn.LayerNorm(width, eps=1e-6)
        self.blocks = nn.ModuleList(
            ConvNextBlock(width, inner, kernel_size, scale=1 / max(1, num_blocks)) for _ in range(num_blocks)
        )
        self.last_norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        x = self.first_norm(x)
        for block in self.blocks:
            x = block(x)
        y: Tensor = self.last_norm(x)
        return y
