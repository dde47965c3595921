"""Linear layers and distances to codewords in C, with the bits that PyTorch gives them.

MKL, which PyTorch calls for matrix products, takes no AVX-512 on AMD's processors: there, the same sums are done in
less than half of the time (`solfa.codecs.cpu.sum_order` finds out whether they are the same).
"""

from copy import deepcopy
from functools import cached_property
from typing import Any, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from solfa.codecs.cpu.frame_kernel import FrameConvolution, load_frame_kernel, pack
from solfa.codecs.cpu.sum_order import FEWEST_ROWS, LinearShape, find_order


@final
class ExactLinear(nn.Module):
    """A linear layer around weights that stay where they are; the compiled one has a copy of them in its own order."""

    def __init__(self, weight: Float[Tensor, "out in"], bias: Float[Tensor, "out"] | None = None) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, x: Float[Tensor, "*B in"]) -> Float[Tensor, "*B out"]:
        rows = x.reshape(-1, x.shape[-1])
        compiled = self._compiled if self._can_read(rows) else None
        if compiled is None:
            return F.linear(x, self.weight, self.bias)
        product = compiled(rows.contiguous()[None].mT, len(rows)).mT
        return product.view(*x.shape[:-1], -1)

    def _can_read(self, rows: Float[Tensor, "n in"]) -> bool:
        return (
            rows.dtype == self.weight.dtype == torch.float32
            and rows.device.type == "cpu"
            and len(rows) >= FEWEST_ROWS
            and torch.get_num_threads() == 1
            and not torch.is_grad_enabled()
        )

    @cached_property
    def _compiled(self) -> FrameConvolution | None:
        kernel = load_frame_kernel()
        width_out, width_in = self.weight.shape
        order = None if kernel is None else find_order(kernel, LinearShape(width_in, width_out, self.bias is not None))
        if kernel is None or order is None:
            return None
        weight, bias = self.weight.detach(), None if self.bias is None else self.bias.detach()
        return pack(kernel, weight.unsqueeze(2), bias, 1, 1, order)


def with_exact_products(network: nn.Module) -> Any:
    """Copy a network around the same weights, with linear layers that are computed in C where that changes nothing."""
    copy = copy_around(network)
    for part in copy.modules():
        for name, layer in part.named_children():
            if type(layer) is nn.Linear:
                setattr(part, name, ExactLinear(layer.weight, layer.bias))
    return copy


@final
class NearestCodewords:
    """The entries of EnCodec's codebooks nearest to frames, by |x|^2 - 2 x.e + |e|^2 in the library's order."""

    def __init__(self, codewords: Float[Tensor, "V D"]) -> None:
        self._product = ExactLinear(codewords)
        self._squares = codewords.t().pow(2).sum(0, keepdim=True)

    def __call__(self, frames: Float[Tensor, "N D"]) -> Int64[Tensor, "N"]:
        distances = self._product(2 * frames)
        torch.sub(frames.pow(2).sum(1, keepdim=True), distances, out=distances)
        nearest: Tensor = distances.add_(self._squares).neg_().max(dim=-1).indices
        return nearest


def with_nearest_codewords(quantizer: nn.Module) -> Any:
    """Copy the quantizer of a transformers `EncodecModel` around the same codebooks, and compute its distances in C."""
    copy = copy_around(quantizer)
    for layer in copy.layers:
        layer.codebook.quantize = NearestCodewords(layer.codebook.embed)
    return copy


def copy_around(network: nn.Module) -> Any:
    """Copy the modules of a network, but none of their tensors."""
    return deepcopy(network, {id(tensor): tensor for tensor in (*network.parameters(), *network.buffers())})
