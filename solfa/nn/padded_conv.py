"""Convolutions over time that keep whole frames: ceil(n / stride) outputs for n inputs, n * stride back.

        causal                                    not causal
    p p p p x x x x x x x e                   p p x x x x x x x e p p        kernel 6, stride 2
    `- all padding left    `- completes the last frame (both)

`p` is kernel - stride samples in all (with dilation, the kernel's span counts). A transposed convolution with the same
kernel gives that many samples too many, which are cut off where the padding was. The numerics are EnCodec's.
"""

import math
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm as with_weight_norm

PadMode = Literal["reflect", "constant"]


def pad(x: Float[Tensor, "B C n"], left: int, right: int, mode: PadMode) -> Float[Tensor, "B C m"]:
    """Pad in time; a clip too short to be reflected is first extended with zeros, which are removed again."""
    missing = max(left, right) - x.shape[-1] + 1 if mode == "reflect" else 0
    if missing <= 0:
        return F.pad(x, (left, right), mode)
    return F.pad(F.pad(x, (0, missing)), (left, right), mode)[..., :-missing]


class PaddedConv1d(nn.Module):
    """A convolution with ceil(n / stride) outputs."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        dilation: int = 1,
        *,
        causal: bool,
        pad_mode: PadMode,
        weight_norm: bool,
    ) -> None:
        super().__init__()
        self.causal, self.pad_mode = causal, pad_mode
        self.stride = stride
        self.num_padded = (kernel_size - 1) * dilation + 1 - stride
        conv = nn.Conv1d(in_channels, out_channels, kernel_size, stride, dilation=dilation)
        self.conv = with_weight_norm(conv) if weight_norm else conv

    def forward(self, x: Float[Tensor, "B C n"]) -> Float[Tensor, "B D m"]:
        right = 0 if self.causal else self.num_padded // 2
        completion = -x.shape[-1] % self.stride
        y: Tensor = self.conv(pad(x, self.num_padded - right, right + completion, self.pad_mode))
        return y


class TrimmedConvTranspose1d(nn.Module):
    """A transposed convolution with n * stride outputs."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        *,
        causal: bool,
        trim_right_ratio: float,
        weight_norm: bool,
    ) -> None:
        super().__init__()
        total = kernel_size - stride
        self.trim_right = math.ceil(total * trim_right_ratio) if causal else total // 2
        self.trim_left = total - self.trim_right
        conv = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, stride)
        self.conv = with_weight_norm(conv) if weight_norm else conv

    def forward(self, x: Float[Tensor, "B C n"]) -> Float[Tensor, "B D m"]:
        y: Tensor = self.conv(x)
        return y[..., self.trim_left : y.shape[-1] - self.trim_right]
