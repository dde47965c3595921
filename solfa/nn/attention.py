"""Multi-head attention without biases: causal over the steps, and cross-attention to a condition.

The projections are fused along their outputs, in the order of their names: `qkv` is [3D, D] and `key_value` [2D, D].
One large product reads its weights as fast as three small ones, with a third of the calls.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from solfa.nn.key_value_cache import KeyValueCache
from solfa.nn.positions import Rotation, rotate


class SelfAttention(nn.Module):
    """Each step attends to itself and all steps before it."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        angles: Rotation | None = None,
        cache: KeyValueCache | None = None,
        layer: int = 0,
    ) -> Float[Tensor, "B S D"]:
        queries, keys, values = split_heads(self.qkv(x), 3, self.num_heads)
        if angles is not None:
            queries, keys = rotate(queries, angles), rotate(keys, angles)
        if cache is not None:
            keys, values = (part.to(queries.dtype) for part in cache.append(layer, keys, values))
        attended: Tensor = self.out(join_heads(causal_attention(queries, keys, values)))
        return attended


class CrossAttention(nn.Module):
    """Each step attends to all unmasked positions of a condition."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query = nn.Linear(dim, dim, bias=False)
        self.key_value = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(
        self,
        x: Float[Tensor, "B S D"],
        condition: Float[Tensor, "B L D"],
        mask: Bool[Tensor, "B L"] | None = None,
        cache: KeyValueCache | None = None,
        layer: int = 0,
    ) -> Float[Tensor, "B S D"]:
        (queries,) = split_heads(self.query(x), 1, self.num_heads)
        keys, values = (part.to(queries.dtype) for part in self.keys_and_values(condition, cache, layer))
        seen = None if mask is None else mask[:, None, None, :]
        attended: Tensor = self.out(join_heads(F.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)))
        return attended

    def keys_and_values(
        self, condition: Float[Tensor, "B L D"], cache: KeyValueCache | None, layer: int
    ) -> tuple[Float[Tensor, "B H L E"], Float[Tensor, "B H L E"]]:
        """Project the condition, once per cache."""
        kept = None if cache is None else cache.cross[layer]
        if kept is None:
            keys, values = split_heads(self.key_value(condition), 2, self.num_heads)
            kept = keys, values
            if cache is not None:
                kept = cache.cross[layer] = cache.rounded(keys), cache.rounded(values)
        return kept


def split_heads(x: Float[Tensor, "B S W"], num_parts: int, num_heads: int) -> tuple[Tensor, ...]:
    """Cut fused projections [B, S, parts * H * E] into parts of [B, H, S, E]."""
    batch, steps, width = x.shape
    parts = x.view(batch, steps, num_parts, num_heads, width // (num_parts * num_heads))
    return parts.permute(2, 0, 3, 1, 4).unbind(0)


def join_heads(x: Float[Tensor, "B H S E"]) -> Float[Tensor, "B S D"]:
    """Concatenate the heads."""
    return x.transpose(1, 2).flatten(2)


def causal_attention(
    queries: Float[Tensor, "B H N E"], keys: Float[Tensor, "B H S E"], values: Float[Tensor, "B H S E"]
) -> Float[Tensor, "B H N E"]:
    """Attend causally; the queries are the last N of the S steps."""
    num_new, num_steps = queries.shape[2], keys.shape[2]
    if num_new == num_steps and _is_faster_in_blocks(queries):
        return _attend_in_blocks(queries, keys, values)
    if num_new == num_steps:
        return F.scaled_dot_product_attention(queries, keys, values, is_causal=num_new > 1)
    if num_new == 1:
        return F.scaled_dot_product_attention(queries, keys, values)
    # `is_causal` aligns the first query with the first key; here the last ones belong together.
    seen = torch.ones(num_new, num_steps, dtype=torch.bool, device=keys.device).tril(num_steps - num_new)
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)


NUM_BLOCKS = 4
"""Of queries. Each reads the keys up to its own end, so that four do five eighths of the work of one."""
FEWEST_STEPS, MOST_SCORES = 256, 2**25
"""Shorter sequences gain nothing; the scores of larger batches, which are kept for gradients, take too much memory."""


def _is_faster_in_blocks(queries: Float[Tensor, "B H S E"]) -> bool:
    """Say whether plain products are faster: in training with bfloat16 on a CPU, where PyTorch's attention is slow."""
    batch, heads, steps, _ = queries.shape
    return (
        queries.requires_grad
        and queries.device.type == "cpu"
        and queries.dtype == torch.bfloat16
        and steps >= FEWEST_STEPS
        and batch * heads * steps**2 <= MOST_SCORES
    )


def _attend_in_blocks(
    queries: Float[Tensor, "B H S E"], keys: Float[Tensor, "B H S E"], values: Float[Tensor, "B H S E"]
) -> Float[Tensor, "B H S E"]:
    """Attend causally, block by block of queries."""
    num_steps = queries.shape[2]
    hidden = torch.full((num_steps, num_steps), -torch.inf, dtype=queries.dtype, device=queries.device).triu(1)
    scaled = queries * queries.shape[3] ** -0.5
    size = -(-num_steps // NUM_BLOCKS)
    attended = []
    # Autocast would make the scores float32 and back; softmax computes in float32 anyway.
    with torch.autocast(queries.device.type, enabled=False):
        for start in range(0, num_steps, size):
            stop = min(start + size, num_steps)
            scores = scaled[:, :, start:stop] @ keys[:, :, :stop].transpose(2, 3) + hidden[start:stop, :stop]
            attended.append(scores.softmax(dim=-1) @ values[:, :, :stop])
    return torch.cat(attended, dim=2)
