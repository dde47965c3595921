"""The feed-forward experts for audio: a donor's between two projections, a copy of the base's, or low-rank additions.

As with attention, the base layer's own part is passed in and never owned.
"""

from typing import Annotated, Literal

import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from solfa.config import Config
from solfa.models.mot.ledger import Ledger, draw_low_rank, load_like
from solfa.models.mot.text_base import BaseSizes, through
from solfa.nn.linears.low_rank import LowRank
from solfa.nn.transformer import TransformerLayer


class Bridge(Config):
    """Down to the donor's width, through its feed-forward layer, and up again; the up-projection starts at zero."""

    kind: Literal["bridge"] = "bridge"
    width: int | None = Field(default=None, ge=1)
    """None uses the donor's, or half of the base's without a donor."""
    hidden: int | None = Field(default=None, ge=1)
    """None uses the donor's, or four times the width without a donor."""

    def build(self, sizes: BaseSizes, donor: TransformerLayer | None) -> "BridgeFFN":
        width = self.width or (sizes.dim // 2 if donor is None else donor.fc1.in_features)
        hidden = self.hidden or (4 * width if donor is None else donor.fc1.out_features)
        return BridgeFFN(sizes.dim, width, hidden)


class CopiedFFN(Config):
    """A copy of the base's feed-forward layer."""

    kind: Literal["copy"] = "copy"

    def build(self, sizes: BaseSizes, donor: TransformerLayer | None) -> "CopiedGatedFFN":
        return CopiedGatedFFN(sizes)


class LoraFFN(Config):
    """The base's feed-forward layer plus low-rank products, which start at zero."""

    kind: Literal["lora"] = "lora"
    rank: int = Field(default=16, ge=1)
    scale: float = Field(default=1.0, gt=0)

    def build(self, sizes: BaseSizes, donor: TransformerLayer | None) -> "LoraGatedFFN":
        return LoraGatedFFN(sizes, self.rank, self.scale)


FFNKind = Annotated[Bridge | CopiedFFN | LoraFFN, Field(discriminator="kind")]


class BridgeFFN(nn.Module):
    """The donor's feed-forward layer between two projections; `up` starts at zero, so it adds nothing at first."""

    def __init__(self, dim: int, width: int, hidden: int) -> None:
        super().__init__()
        self.down = nn.Linear(dim, width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, hidden, bias=False)
        self.fc2 = nn.Linear(hidden, width, bias=False)
        self.up = nn.Linear(width, dim, bias=False)

    def init_from(self, own: nn.Module, ledger: Ledger, where: str, donor: TransformerLayer | None) -> None:
        ledger.draw(self.down.weight, self.down.in_features**-0.5)
        ledger.draw(self.up.weight, 0.0)
        if donor is None:
            ledger.fill(self.norm.weight, 1.0)
            ledger.fill(self.norm.bias, 0.0)
            ledger.draw(self.fc1.weight, self.fc1.in_features**-0.5)
            ledger.draw(self.fc2.weight, self.fc2.in_features**-0.5)
        else:
            load_like(self.norm, donor.ffn_norm, ledger, f"{where}.ffn_norm")
            load_like(self.fc1, donor.fc1, ledger, f"{where}.fc1")
            load_like(self.fc2, donor.fc2, ledger, f"{where}.fc2")

    @property
    def donated(self) -> tuple[nn.Module, ...]:
        return self.norm, self.fc1, self.fc2

    def forward(self, x: Float[Tensor, "*places D"], own: nn.Module) -> Float[Tensor, "*places D"]:
        raised: Tensor = self.up(self.fc2(F.gelu(self.fc1(self.norm(self.down(x))))))
        return raised


class CopiedGatedFFN(nn.Module):
    """The base's gated feed-forward layer, copied."""

    donated: tuple[nn.Module, ...] = ()

    def __init__(self, sizes: BaseSizes) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(sizes.dim, sizes.ffn_dim, bias=sizes.mlp_bias)
        self.up_proj = nn.Linear(sizes.dim, sizes.ffn_dim, bias=sizes.mlp_bias)
        self.down_proj = nn.Linear(sizes.ffn_dim, sizes.dim, bias=sizes.mlp_bias)

    def init_from(self, own: nn.Module, ledger: Ledger, where: str, donor: TransformerLayer | None) -> None:
        load_like(self, own, ledger, where)

    def forward(self, x: Float[Tensor, "*places D"], own: nn.Module) -> Float[Tensor, "*places D"]:
        lowered: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return lowered


class LoraGatedFFN(nn.Module):
    """The base's gated feed-forward layer with low-rank products inside it."""

    donated: tuple[nn.Module, ...] = ()

    def __init__(self, sizes: BaseSizes, rank: int, scale: float) -> None:
        super().__init__()
        self.gate_proj = LowRank(sizes.dim, sizes.ffn_dim, rank, scale)
        self.up_proj = LowRank(sizes.dim, sizes.ffn_dim, rank, scale)
        self.down_proj = LowRank(sizes.ffn_dim, sizes.dim, rank, scale)

    def init_from(self, own: nn.Module, ledger: Ledger, where: str, donor: TransformerLayer | None) -> None:
        for part in (self.gate_proj, self.up_proj, self.down_proj):
            draw_low_rank(part, ledger)

    def forward(self, x: Float[Tensor, "*places D"], own: nn.Module) -> Float[Tensor, "*places D"]:
        gate = F.silu(through(own.gate_proj, x) + self.gate_proj(x))  # type: ignore[arg-type]
        inner = gate * (through(own.up_proj, x) + self.up_proj(x))  # type: ignore[arg-type]
        lowered: Tensor = through(own.down_proj, inner) + self.down_proj(inner)  # type: ignore[arg-type]
        return lowered
