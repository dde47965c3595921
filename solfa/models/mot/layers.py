"""The audio side of one layer: its own norms, attention and feed-forward experts.

x = x + out(attention(qkv(input_norm(x))));  x = x + ffn(post_norm(x))
"""

from jaxtyping import Float
from torch import Tensor, nn

from solfa.models.mot.attention_experts import AttentionKind, Projections
from solfa.models.mot.ffn_experts import BridgeFFN, FFNKind
from solfa.models.mot.ledger import Ledger, load_like
from solfa.models.mot.text_base import BaseSizes
from solfa.nn.transformer import TransformerLayer


class AudioLayer(nn.Module):
    """Audio's norms and experts for one layer of the base."""

    def __init__(
        self, sizes: BaseSizes, attention: AttentionKind, ffn: FFNKind, donor: TransformerLayer | None
    ) -> None:
        super().__init__()
        self.input_norm = nn.RMSNorm(sizes.dim, sizes.norm_eps)
        self.attention = attention.build(sizes)
        self.post_norm = nn.RMSNorm(sizes.dim, sizes.norm_eps)
        self.ffn = ffn.build(sizes, donor)

    def init_from(
        self, own: nn.Module, ledger: Ledger, where: str, donor: TransformerLayer | None, donor_where: str
    ) -> None:
        """Initialise the weights: norms like the base's, experts by their kind."""
        load_like(self.input_norm, own.input_layernorm, ledger, f"{where}.input_layernorm")  # type: ignore[arg-type]
        load_like(self.post_norm, own.post_attention_layernorm, ledger, f"{where}.post_attention_layernorm")  # type: ignore[arg-type]
        self.attention.init_from(own.self_attn, ledger, f"{where}.self_attn")  # type: ignore[arg-type]
        ffn_where = donor_where if isinstance(self.ffn, BridgeFFN) else f"{where}.mlp"
        self.ffn.init_from(own.mlp, ledger, ffn_where, donor)  # type: ignore[arg-type]

    def freeze_donated(self) -> None:
        """Freeze what came from the donor."""
        for part in self.ffn.donated:
            part.requires_grad_(False)

    def project(self, x: Float[Tensor, "*places D"], own: nn.Module) -> Projections:
        return self.attention.project(self.input_norm(x), own.self_attn)  # type: ignore[arg-type]

    def finish(
        self, x: Float[Tensor, "*places D"], attended: Float[Tensor, "*places Q"], own: nn.Module
    ) -> Float[Tensor, "*places D"]:
        """Add the attention's output, then the feed-forward expert's."""
        x = x + self.attention.out(attended, own.self_attn)  # type: ignore[arg-type]
        raised: Tensor = x + self.ffn(self.post_norm(x), own.mlp)
        return raised


def spread(layer: int, num_layers: int, num_donors: int) -> int:
    """Return the donor layer that goes with a layer: first with first, last with last."""
    return 0 if num_layers == 1 else round(layer * (num_donors - 1) / (num_layers - 1))
