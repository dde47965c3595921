"""A low-rank product added to a frozen projection (LoRA, arXiv 2106.09685)."""

from jaxtyping import Float
from torch import Tensor, nn


class LowRank(nn.Module):
    """A product of two narrow matrices that starts at zero."""

    def __init__(self, width_in: int, width_out: int, rank: int, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.down = nn.Linear(width_in, rank, bias=False)
        self.up = nn.Linear(rank, width_out, bias=False)

    def forward(self, x: Float[Tensor, "*places I"]) -> Float[Tensor, "*places O"]:
        raised: Tensor = self.up(self.down(x))
        return raised * self.scale
