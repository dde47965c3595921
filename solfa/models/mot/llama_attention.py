"""Llama's attention, on the queries, keys and values that the experts computed."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from solfa.models.mot.attention_experts import Projections
from solfa.nn.attention import join_heads
from solfa.nn.positions import Rotation


def heads_of(x: Float[Tensor, "B S W"], head_dim: int) -> Float[Tensor, "B H S E"]:
    """Split concatenated heads."""
    return x.view(*x.shape[:-1], -1, head_dim).transpose(1, 2)


def turned(heads: Float[Tensor, "B H S E"], angles: Rotation) -> Float[Tensor, "B H S E"]:
    """Rotate by the angles of each row's own positions ([B, S, E]), in the base's dtype."""
    first, second = heads.chunk(2, dim=-1)
    cos, sin = angles.cos.unsqueeze(1), angles.sin.unsqueeze(1)
    return heads * cos + torch.cat([-second, first], dim=-1) * sin


def rotated(
    projections: Projections, angles: Rotation, head_dim: int
) -> tuple[Float[Tensor, "B H S E"], Float[Tensor, "B G S E"], Float[Tensor, "B G S E"]]:
    """Split queries, keys and values into heads, and rotate the first two."""
    queries, keys, values = (heads_of(part, head_dim) for part in projections)
    return turned(queries, angles), turned(keys, angles), values


def attended(
    queries: Float[Tensor, "B H N E"],
    keys: Float[Tensor, "B G S E"],
    values: Float[Tensor, "B G S E"],
    mask: Bool[Tensor, "#B 1 N S"] | None,
    *,
    is_causal: bool = False,
) -> Float[Tensor, "B N W"]:
    """Attend with H query heads in G groups that share keys and values; return the heads concatenated."""
    return join_heads(
        F.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=mask,
            is_causal=is_causal and mask is None and queries.shape[2] > 1,
            enable_gqa=queries.shape[1] != keys.shape[1],
        )
    )


def mask_after(
    num_new: int, num_steps: int, prefix: Bool[Tensor, "B L"] | None, num_prefix: int, device: torch.device
) -> Bool[Tensor, "#B 1 N S"] | None:
    """Return what the last `num_new` of `num_steps` audio steps see: the prefix without padding, and no later steps.

    None if all of them see everything.
    """
    if prefix is None and num_new == 1:
        return None
    steps = torch.ones(num_new, num_steps, dtype=torch.bool, device=device).tril(num_steps - num_new)[None, None]
    if prefix is None:
        return F.pad(steps, (num_prefix, 0), value=True)
    seen = prefix[:, None, None].expand(-1, 1, num_new, -1)
    return torch.cat([seen, steps.expand(len(prefix), -1, -1, -1)], dim=3)
