"""How the C kernels store a matrix: with 32, 16, 8 or 4 bits for each weight.

    float32, float16   as they are, or rounded (a relative error of at most 2^-11)
    int8               integers in [-127, 127] with one scale for each output, so that no weight moves by more than half
                       of a level, 1/254 of the largest of its output
    int4               integers in [-8, 7] with one float16 scale for each 32 inputs of an output: 4.5 bits a weight

`panels.h` says in which order they stand.
"""

from typing import ClassVar, NamedTuple, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Float32, UInt8
from torch import Tensor

GROUP = 32
"""How many weights of int4 share a scale."""
_SHRINKS = (1.0, 0.92, 0.85, 0.78)
"""Scales that are tried for a group of int4, relative to the one that its largest weight needs."""


class Packed(NamedTuple):
    """The weights in panels, as bytes, and the scales that do not stand among them."""

    weights: UInt8[Tensor, "_"]
    scales: Float32[Tensor, "O"]


@runtime_checkable
class WeightFormat(Protocol):
    """A way to store a matrix whose sides are multiples of 64."""

    code: ClassVar[int]
    """Its number in panels.h."""
    bits: ClassVar[float]

    def rounded(self, weight: Float32[Tensor, "O I"]) -> Float32[Tensor, "O I"]:
        """Return the weights as they are stored."""
        ...

    def pack(self, weight: Float32[Tensor, "O I"], panel: int) -> Packed: ...


@final
class Float32Format:
    """The weights themselves."""

    code: ClassVar[int] = 0
    bits: ClassVar[float] = 32

    def rounded(self, weight: Float32[Tensor, "O I"]) -> Float32[Tensor, "O I"]:
        return weight

    def pack(self, weight: Float32[Tensor, "O I"], panel: int) -> Packed:
        return Packed(_bytes_of(_panels(weight, panel).mT), torch.empty(0))


@final
class Float16Format:
    """The nearest float16 of each weight; what is too large becomes the largest."""

    code: ClassVar[int] = 1
    bits: ClassVar[float] = 16

    def rounded(self, weight: Float32[Tensor, "O I"]) -> Float32[Tensor, "O I"]:
        return to_half(weight).float()

    def pack(self, weight: Float32[Tensor, "O I"], panel: int) -> Packed:
        return Packed(_bytes_of(_panels(to_half(weight), panel).mT), torch.empty(0))


@final
class Int8Format:
    """Integers of eight bits, with a scale for each output."""

    code: ClassVar[int] = 2
    bits: ClassVar[float] = 8

    def rounded(self, weight: Float32[Tensor, "O I"]) -> Float32[Tensor, "O I"]:
        integers, scales = self._quantise(weight)
        return integers * scales[:, None]

    def pack(self, weight: Float32[Tensor, "O I"], panel: int) -> Packed:
        integers, scales = self._quantise(weight)
        pairs = _panels(integers, panel).view(-1, panel, weight.shape[1] // 2, 2).transpose(1, 2)
        return Packed(_bytes_of(pairs), scales)

    def _quantise(self, weight: Float32[Tensor, "O I"]) -> tuple[Tensor, Tensor]:
        scales = weight.abs().amax(dim=1).clamp(min=1e-30) / 127
        return (weight / scales[:, None]).round().to(torch.int8), scales


@final
class Int4Format:
    """Integers of four bits, with a scale for each group of inputs."""

    code: ClassVar[int] = 3
    bits: ClassVar[float] = 4 + 16 / GROUP

    def rounded(self, weight: Float32[Tensor, "O I"]) -> Float32[Tensor, "O I"]:
        integers, scales = self._quantise(weight)
        return (integers * scales.float()[..., None]).flatten(1)

    def pack(self, weight: Float32[Tensor, "O I"], panel: int) -> Packed:
        integers, scales = self._quantise(weight)
        # [O / panel, panel, group, eight, first or second four, four]: the second four go into the high bits.
        eights = (integers + 8).to(torch.uint8).view(-1, panel, weight.shape[1] // GROUP, GROUP // 8, 2, 4)
        low, high = eights.unbind(4)
        codes = (low | high << 4).permute(0, 2, 3, 1, 4).flatten(2)
        levels = _panels(scales, panel).mT.contiguous().view(torch.uint8)
        return Packed(torch.cat([levels, codes], dim=2).flatten(), torch.empty(0))

    def _quantise(self, weight: Float32[Tensor, "O I"]) -> tuple[Float[Tensor, "O G 32"], Float[Tensor, "O G"]]:
        """Try a few scales for each group, and keep the one with the smallest squared error.

        The weight with the largest magnitude becomes -8 or less, because there is no 8: the scale has its sign.
        """
        groups = weight.reshape(len(weight), -1, GROUP)
        largest = groups.gather(2, groups.abs().argmax(dim=2, keepdim=True)).squeeze(2)
        best = torch.full_like(largest, torch.inf)
        kept, levels = torch.zeros_like(groups), torch.zeros_like(largest, dtype=torch.float16)
        for shrink in _SHRINKS:
            scales = to_half(largest * (-shrink / 8))
            divisors = scales.float()[..., None]
            integers = (groups / divisors.where(divisors != 0, 1.0)).round_().clamp_(-8, 7)
            errors = (integers * divisors - groups).square_().sum(dim=2)
            better = errors < best
            best = torch.where(better, errors, best)
            levels = torch.where(better, scales, levels)
            kept = torch.where(better[..., None], integers, kept)
        return kept, levels


def to_half(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Round to float16; what is too large becomes the largest number, not infinity."""
    largest = torch.finfo(torch.float16).max
    return x.clamp(-largest, largest).half()


def _panels(matrix: Tensor, panel: int) -> Tensor:
    return matrix.view(-1, panel, matrix.shape[1])


def _bytes_of(x: Tensor) -> UInt8[Tensor, "_"]:
    return x.contiguous().view(-1).view(torch.uint8)
