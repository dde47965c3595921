"""How a transformer knows the position of a step: sinusoids added to the input, or rotated queries and keys.

Both are computed in float32 for the positions needed, so there is no maximum length and nothing in the checkpoint.
"""

import math
from typing import Annotated, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from solfa.config import Config


class Rotation(NamedTuple):
    """The angles of each position, as cosine and sine, for both halves of a head."""

    cos: Float[Tensor, "S E"]
    sin: Float[Tensor, "S E"]


class Sinusoidal(Config):
    """Absolute positions as MusicGen adds them.

    >>> import torch
    >>> from solfa.nn import Sinusoidal
    >>> Sinusoidal().embedding(torch.arange(3), dim=4).round(decimals=3)[0]
    tensor([1., 1., 0., 0.])
    """

    kind: Literal["sinusoidal"] = "sinusoidal"

    def embedding(self, positions: Int[Tensor, "S"], dim: int) -> Float[Tensor, "S D"] | None:
        return sinusoids(positions, dim)

    def rotation(self, positions: Int[Tensor, "S"], head_dim: int) -> Rotation | None:
        return None


class Rope(Config):
    """Relative positions by rotation (arXiv 2104.09864).

    >>> import torch
    >>> from solfa.nn import Rope
    >>> turned = Rope().rotation(torch.arange(3), head_dim=4)
    >>> turned.cos.shape, turned.sin[0]  # the first position is not turned
    (torch.Size([3, 4]), tensor([0., 0., 0., 0.]))
    """

    kind: Literal["rope"] = "rope"
    base: float = Field(default=10_000.0, gt=1)

    def embedding(self, positions: Int[Tensor, "S"], dim: int) -> Float[Tensor, "S D"] | None:
        return None

    def rotation(self, positions: Int[Tensor, "S"], head_dim: int) -> Rotation | None:
        return rotation(positions, head_dim, self.base)


Positions = Annotated[Sinusoidal | Rope, Field(discriminator="kind")]


def sinusoids(positions: Int[Tensor, "S"], dim: int) -> Float[Tensor, "S {dim}"]:
    """Embed positions as [cos | sin] of geometrically spaced frequencies, from 1 to 1/10000 inclusive.

    The last frequency is exactly 1/10000 (the exponent is divided by dim/2 - 1), as in tensor2tensor and MusicGen;
    the paper "Attention is all you need" stops one step before.
    """
    half = dim // 2
    spacing = math.log(10_000) / (half - 1)
    frequencies = torch.exp(torch.arange(half, device=positions.device).float() * -spacing)
    angles = positions.float()[:, None] * frequencies
    return torch.nn.functional.pad(torch.cat([angles.cos(), angles.sin()], dim=1), (0, dim % 2))


def rotation(positions: Int[Tensor, "S"], head_dim: int, base: float) -> Rotation:
    """Compute the angles of a rotary embedding; dimension e is paired with e + head_dim / 2."""
    exponents = torch.arange(0, head_dim, 2, device=positions.device).float() / head_dim
    angles = positions.float()[:, None] * base**-exponents
    angles = torch.cat([angles, angles], dim=1)
    return Rotation(angles.cos(), angles.sin())


def rotate(heads: Float[Tensor, "B H S E"], angles: Rotation) -> Float[Tensor, "B H S E"]:
    """Rotate each pair of dimensions by its position's angle, in float32."""
    first, second = heads.float().chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (heads * angles.cos + turned * angles.sin).to(heads.dtype)
