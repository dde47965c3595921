"""The grid of classes that a waveform is rounded to, shared by dataset, output head and generator.

A grid maps the amplitude x in [-1, 1] to a position y in [-1, 1] (`linear` leaves it as it is), and its classes divide
positions equally:

    class      0          1                              C - 1
    position  -1    -1 + 2/(C - 1)        ...              1          of class k: 2k/(C - 1) - 1
    borders        |              |                 |                 halfway between positions

So a model that treats classes as numbers on a line, as a mixture of logistics does, need not know which grid they come
from. C is even and the grid symmetric, so it has no zero: silence, like every tie, goes to the upper of the two middle
classes, C/2. Nor is it the grid of integer samples, whose lowest value has no counterpart: v / 32768 is rounded to the
nearest of 65,536 values, and v = 0 and v = 1 end up in the same class.
"""

from typing import Annotated, Literal, NamedTuple

import torch
from jaxtyping import Float, Float32, Float64, Int, Int64
from pydantic import Field
from torch import Tensor

from solfa.config import Config
from solfa.ops.mulaw import mulaw_bend, mulaw_decode, mulaw_encode, mulaw_unbend

Bits = Annotated[int, Field(ge=2, le=16)]
"""One bit is refused: both of its classes are full scale, so silence would be, too."""


class _Classes(Config):
    """How many classes there are; silence is the middle one."""

    bits: Bits

    @property
    def num_classes(self) -> int:
        return 1 << self.bits


class LinearGrid(_Classes):
    """Equally spaced amplitudes.

    >>> import torch
    >>> from solfa.ops import LinearGrid
    >>> grid = LinearGrid(bits=8)
    >>> grid.num_classes, grid.to_classes(torch.tensor([-1.0, 0.0, 0.5]))
    (256, tensor([  0, 128, 191]))
    """

    kind: Literal["linear"] = "linear"
    bits: Bits = 16

    def to_classes(self, audio: Float[Tensor, "*shape"]) -> Int64[Tensor, "*shape"]:
        """Round amplitudes to classes; values outside [-1, 1] are clipped."""
        return torch.floor((self.positions(audio) + 1) / 2 * (self.num_classes - 1) + 0.5).long()

    def to_audio(self, classes: Int[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        """Return the amplitude of each class; `to_classes` maps it back to the same class."""
        # One division of integers: the amplitudes of a class and its mirror image are negatives to the bit.
        return ((2 * classes.double() - (self.num_classes - 1)) / (self.num_classes - 1)).float()

    def positions(self, audio: Float[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
        """Return the positions of amplitudes, clipped to [-1, 1], on the line that classes divide equally."""
        return audio.double().clamp(-1.0, 1.0)

    def borders(self) -> Float64[Tensor, "borders"]:
        """Return the amplitudes between neighbouring classes, ascending: one fewer than there are classes."""
        return _middle_positions(self.num_classes)


class MulawGrid(_Classes):
    """Mu-law amplitudes, whose spacing grows with the amplitude.

    >>> import torch
    >>> from solfa.ops import MulawGrid
    >>> grid = MulawGrid(bits=8)
    >>> grid.num_classes, grid.to_classes(torch.tensor([0.0, 0.5]))
    (256, tensor([128, 239]))
    """

    kind: Literal["mulaw"] = "mulaw"
    bits: Bits = 8

    def to_classes(self, audio: Float[Tensor, "*shape"]) -> Int64[Tensor, "*shape"]:
        """Round positions, not amplitudes, to the nearest class; values outside [-1, 1] are clipped."""
        return mulaw_encode(audio, self.num_classes)

    def to_audio(self, classes: Int[Tensor, "*shape"]) -> Float32[Tensor, "*shape"]:
        """Return the amplitude at the position of each class; `to_classes` maps it back to the same class."""
        return mulaw_decode(classes, self.num_classes)

    def positions(self, audio: Float[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
        """Map amplitudes, clipped to [-1, 1], to positions on the line that classes divide equally."""
        return mulaw_bend(audio, self.num_classes)

    def borders(self) -> Float64[Tensor, "borders"]:
        """Return the amplitudes halfway, in position, between neighbouring classes."""
        return mulaw_unbend(_middle_positions(self.num_classes), self.num_classes)


Grid = Annotated[LinearGrid | MulawGrid, Field(discriminator="kind")]


def _middle_positions(num_classes: int) -> Float64[Tensor, "borders"]:
    return (2 * torch.arange(1, num_classes).double() - num_classes) / (num_classes - 1)


class Cells(NamedTuple):
    """Intervals that cover a line without overlapping, one per class of a grid."""

    lower: Float64[Tensor, "V"]
    upper: Float64[Tensor, "V"]


def cells_on(grid: Grid, other: Grid) -> Cells:
    """Return the cells of `other` as intervals of positions on `grid`; the outermost are infinite.

    >>> from solfa.ops import LinearGrid, MulawGrid, cells_on
    >>> cells = cells_on(LinearGrid(bits=16), MulawGrid(bits=2))
    >>> [round(border, 3) for border in cells.upper.tolist()]
    [-0.507, 0.0, 0.507, inf]
    """
    borders = grid.positions(other.borders())
    infinity = borders.new_tensor([torch.inf])
    return Cells(torch.cat([-infinity, borders]), torch.cat([borders, infinity]))
