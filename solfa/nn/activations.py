"""Activations for convolutional networks, each a config that builds its module for a number of channels."""

from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from solfa.config import Config


def snake(x: Float[Tensor, "B C N"], frequency: Float[Tensor, "C"]) -> Float[Tensor, "B C N"]:
    """Compute x + sin(a x)^2 / a for the frequency a of each channel (arXiv 2006.08195)."""
    a = frequency[:, None]
    # A frequency of zero is the identity in the limit; the small number keeps the quotient finite there.
    return x + torch.sin(a * x).square() / (a + 1e-9)


class SnakeActivation(nn.Module):
    """A snake with learned frequencies, initially 1."""

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        self.frequency = nn.Parameter(torch.ones(num_channels))

    def forward(self, x: Float[Tensor, "B C N"]) -> Float[Tensor, "B C N"]:
        return snake(x, self.frequency)


class Elu(Config):
    """x above zero, alpha (exp(x) - 1) below, as in EnCodec."""

    kind: Literal["elu"] = "elu"
    alpha: float = Field(default=1.0, gt=0)

    def build(self, num_channels: int) -> nn.Module:
        return nn.ELU(self.alpha)


class Snake(Config):
    """A periodic activation with one learned frequency per channel, as in DAC and Oobleck."""

    kind: Literal["snake"] = "snake"

    def build(self, num_channels: int) -> nn.Module:
        return SnakeActivation(num_channels)


Activation = Annotated[Elu | Snake, Field(discriminator="kind")]
