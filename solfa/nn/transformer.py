"""The pre-norm transformer decoder of MusicGen: self-attention, optional cross-attention, GELU feed-forward.

    x = x + self_attention(norm(x));  x = x + cross_attention(norm(x), condition);  x = x + fc2(gelu(fc1(norm(x))))

Norms have biases, projections have none.
"""

from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from solfa.nn.attention import CrossAttention, SelfAttention
from solfa.nn.key_value_cache import KeyValueCache
from solfa.nn.positions import Rotation


class TransformerLayer(nn.Module):
    """One layer; without a condition its cross-attention adds nothing.

    >>> import torch
    >>> from solfa.nn import TransformerLayer
    >>> layer = TransformerLayer(16, num_heads=2, ffn_dim=32, dropout=0.0, cross_attention=True)
    >>> layer(torch.randn(1, 6, 16), condition=torch.randn(1, 3, 16)).shape
    torch.Size([1, 6, 16])
    """

    def __init__(self, dim: int, num_heads: int, ffn_dim: int, dropout: float, cross_attention: bool) -> None:
        super().__init__()
        self.dropout = dropout
        self.self_norm = nn.LayerNorm(dim)
        self.self_attention = SelfAttention(dim, num_heads)
        self.cross_norm = nn.LayerNorm(dim) if cross_attention else None
        self.cross_attention = CrossAttention(dim, num_heads) if cross_attention else None
        self.ffn_norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, ffn_dim, bias=False)
        self.fc2 = nn.Linear(ffn_dim, dim, bias=False)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        angles: Rotation | None = None,
        condition: Float[Tensor, "B L D"] | None = None,
        condition_mask: Bool[Tensor, "B L"] | None = None,
        cache: KeyValueCache | None = None,
        layer: int = 0,
    ) -> Float[Tensor, "B S D"]:
        x = x + self._drop(self.self_attention(self.self_norm(x), angles, cache, layer))
        if condition is not None:
            assert self.cross_norm is not None and self.cross_attention is not None
            x = x + self._drop(self.cross_attention(self.cross_norm(x), condition, condition_mask, cache, layer))
        return x + self._drop(self.fc2(F.gelu(self.fc1(self.ffn_norm(x)))))

    def _drop(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return F.dropout(x, self.dropout, self.training)


@runtime_checkable
class Stepper(Protocol):
    """Another way to read one step of each row, with the same result but for rounding."""

    cache_dtype: torch.dtype

    def step(
        self,
        transformer: "Transformer",
        x: Float[Tensor, "B 1 D"],
        angles: Rotation | None,
        condition: Float[Tensor, "B L D"] | None,
        mask: Bool[Tensor, "B L"] | None,
        cache: KeyValueCache,
    ) -> Float[Tensor, "B 1 D"]: ...


class Transformer(nn.Module):
    """A stack of layers and a final norm.

    >>> import torch
    >>> from solfa.nn import Transformer
    >>> network = Transformer(num_layers=2, dim=16, num_heads=2, ffn_dim=32).eval()
    >>> x = torch.randn(1, 6, 16)  # [B, S, D]
    >>> torch.allclose(network(x)[:, :4], network(x[:, :4]), atol=1e-5)  # no step sees later ones
    True
    """

    def __init__(
        self,
        num_layers: int,
        dim: int,
        num_heads: int,
        ffn_dim: int,
        dropout: float = 0.0,
        cross_attention: bool = False,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            TransformerLayer(dim, num_heads, ffn_dim, dropout, cross_attention) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim)
        self.stepper: Stepper | None = None
        """Reads steps one by one where PyTorch would be slow; see `solfa.nn.kernels.stepper`."""

    @property
    def cache_dtype(self) -> torch.dtype:
        """The numbers that a cache should have."""
        return self.norm.weight.dtype if self.stepper is None else self.stepper.cache_dtype

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        angles: Rotation | None = None,
        condition: Float[Tensor, "B L D"] | None = None,
        condition_mask: Bool[Tensor, "B L"] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "B S D"]:
        if self.stepper is not None and cache is not None and x.shape[1] == 1:
            return self.stepper.step(self, x, angles, condition, condition_mask, cache)
        for index, layer in enumerate(self.layers):
            x = layer(x, angles, condition, condition_mask, cache, index)
        if cache is not None:
            cache.advance(x.shape[1])
        normed: Tensor = self.norm(x)
        return normed
