"""How audio positions compute queries, keys and values, and project the attention's output.

An expert that builds on the base's frozen weights gets the base layer's attention (`own`) passed in when it is called;
it never owns it. Each initialises its own weights, through a ledger that records where they came from.
"""

from typing import Annotated, Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from solfa.config import Config
from solfa.models.mot.ledger import Ledger, draw_low_rank, load_like
from solfa.models.mot.text_base import BaseSizes, through
from solfa.nn.linears.low_rank import LowRank

Projections = tuple[Float[Tensor, "*places Q"], Float[Tensor, "*places KV"], Float[Tensor, "*places KV"]]
"""Queries, keys and values, with their heads concatenated."""


class SharedAttention(Config):
    """Audio uses the base's own projections; nothing is trained."""

    kind: Literal["shared"] = "shared"

    def build(self, sizes: BaseSizes) -> "SharedProjections":
        return SharedProjections()


class CopiedAttention(Config):
    """Audio has its own projections, which start as copies of the base's."""

    kind: Literal["copy"] = "copy"

    def build(self, sizes: BaseSizes) -> "CopiedProjections":
        return CopiedProjections(sizes)


class LoraAttention(Config):
    """The base's projections plus low-rank ones, which start at zero (arXiv 2106.09685)."""

    kind: Literal["lora"] = "lora"
    rank: int = Field(default=16, ge=1)
    scale: float = Field(default=1.0, gt=0)
    """The factor on the low-rank product."""

    def build(self, sizes: BaseSizes) -> "LoraProjections":
        return LoraProjections(sizes, self.rank, self.scale)


AttentionKind = Annotated[SharedAttention | CopiedAttention | LoraAttention, Field(discriminator="kind")]


class SharedProjections(nn.Module):
    """The base's own projections."""

    def init_from(self, own: nn.Module, ledger: Ledger, where: str) -> None:
        return

    def project(self, x: Float[Tensor, "*places D"], own: nn.Module) -> Projections:
        return _own_projections(x, own)

    def out(self, x: Float[Tensor, "*places Q"], own: nn.Module) -> Float[Tensor, "*places D"]:
        return through(own.o_proj, x)  # type: ignore[arg-type]


class CopiedProjections(nn.Module):
    """Audio's own projections, which start as copies."""

    def __init__(self, sizes: BaseSizes) -> None:
        super().__init__()
        bias = sizes.attention_bias
        for name, (width_in, width_out) in _attention_widths(sizes).items():
            setattr(self, name, nn.Linear(width_in, width_out, bias=bias))

    def init_from(self, own: nn.Module, ledger: Ledger, where: str) -> None:
        load_like(self, own, ledger, where)

    def project(self, x: Float[Tensor, "*places D"], own: nn.Module) -> Projections:
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)  # type: ignore[operator]

    def out(self, x: Float[Tensor, "*places Q"], own: nn.Module) -> Float[Tensor, "*places D"]:
        raised: Tensor = self.o_proj(x)  # type: ignore[operator]
        return raised


class LoraProjections(nn.Module):
    """The base's projections with low-rank ones on top."""

    def __init__(self, sizes: BaseSizes, rank: int, scale: float) -> None:
        super().__init__()
        widths = _attention_widths(sizes)
        self.q_proj = LowRank(*widths["q_proj"], rank, scale)
        self.k_proj = LowRank(*widths["k_proj"], rank, scale)
        self.v_proj = LowRank(*widths["v_proj"], rank, scale)
        self.o_proj = LowRank(*widths["o_proj"], rank, scale)

    def init_from(self, own: nn.Module, ledger: Ledger, where: str) -> None:
        for part in (self.q_proj, self.k_proj, self.v_proj, self.o_proj):
            draw_low_rank(part, ledger)

    def project(self, x: Float[Tensor, "*places D"], own: nn.Module) -> Projections:
        queries, keys, values = _own_projections(x, own)
        return queries + self.q_proj(x), keys + self.k_proj(x), values + self.v_proj(x)

    def out(self, x: Float[Tensor, "*places Q"], own: nn.Module) -> Float[Tensor, "*places D"]:
        raised: Tensor = through(own.o_proj, x) + self.o_proj(x)  # type: ignore[arg-type]
        return raised


def _own_projections(x: Float[Tensor, "*places D"], own: nn.Module) -> Projections:
    return through(own.q_proj, x), through(own.k_proj, x), through(own.v_proj, x)  # type: ignore[arg-type]


def _attention_widths(sizes: BaseSizes) -> dict[str, tuple[int, int]]:
    queries, keys = sizes.num_heads * sizes.head_dim, sizes.num_key_value_heads * sizes.head_dim
    return {
        "q_proj": (sizes.dim, queries),
        "k_proj": (sizes.dim, keys),
        "v_proj": (sizes.dim, keys),
        "o_proj": (queries, sizes.dim),
    }
