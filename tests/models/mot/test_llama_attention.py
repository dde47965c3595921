"""Attention against its definition, and the mask of what steps see."""

import math

import pytest
import torch
from torch import Tensor

from solfa.models.mot.llama_attention import attended, heads_of, mask_after, turned
from solfa.nn.positions import Rotation


def attend_slowly(queries: Tensor, keys: Tensor, values: Tensor, seen: Tensor) -> Tensor:
    """One query at a time; H query heads in G groups, heads side by side at the end."""
    batch, heads, new, width = queries.shape
    group = heads // keys.shape[1]
    out = torch.zeros(batch, new, heads * width)
    for b in range(batch):
        for h in range(heads):
            for n in range(new):
                places = [s for s in range(keys.shape[2]) if seen[b, n, s]]
                scores = torch.stack([queries[b, h, n] @ keys[b, h // group, s] for s in places]) / math.sqrt(width)
                weights = scores.softmax(0)
                row = sum(weight * values[b, h // group, s] for weight, s in zip(weights, places, strict=True))
                out[b, n, h * width : (h + 1) * width] = row
    return out


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_query_heads_share_keys_and_values_in_groups(groups: int) -> None:
    queries = torch.randn(2, 4, 3, 6)
    keys, values = torch.randn(2, groups, 5, 6), torch.randn(2, groups, 5, 6)
    mask = mask_after(3, 3, torch.tensor([[True, True], [True, False]]), 2, queries.device)
    assert mask is not None
    found = attended(queries, keys, values, mask)
    assert torch.allclose(found, attend_slowly(queries, keys, values, mask.expand(2, 1, 3, 5)[:, 0]), atol=1e-5)


def test_causal_attention_sees_what_is_not_later() -> None:
    queries, keys, values = torch.randn(1, 2, 4, 6), torch.randn(1, 2, 4, 6), torch.randn(1, 2, 4, 6)
    causal = torch.ones(1, 4, 4, dtype=torch.bool).tril()
    found = attended(queries, keys, values, None, is_causal=True)
    assert torch.allclose(found, attend_slowly(queries, keys, values, causal), atol=1e-5)


def sees_slowly(n: int, s: int, num_new: int, num_steps: int, num_prefix: int, row: list[bool] | None) -> bool:
    """Whether new step n may see place s: text that is real, or audio that is not later."""
    if s < num_prefix:
        return row is None or row[s]
    return s - num_prefix <= num_steps - num_new + n


@pytest.mark.parametrize(("num_new", "num_steps"), [(1, 1), (4, 4), (1, 5), (2, 5)])
@pytest.mark.parametrize(
    ("num_prefix", "rows"),
    [(0, None), (3, None), (3, [[True, True, False], [False, False, False]])],
    ids=["no text", "whole", "padded"],
)
def test_steps_see_the_text_and_no_later_step(
    num_new: int, num_steps: int, num_prefix: int, rows: list[list[bool]] | None
) -> None:
    prefix = None if rows is None else torch.tensor(rows)
    mask = mask_after(num_new, num_steps, prefix, num_prefix, torch.device("cpu"))
    seen = torch.ones(2, 1, num_new, num_prefix + num_steps, dtype=torch.bool) if mask is None else mask
    seen = seen.expand(2, 1, num_new, num_prefix + num_steps)
    for b in range(2):
        for n in range(num_new):
            for s in range(num_prefix + num_steps):
                row = None if rows is None else rows[b]
                assert bool(seen[b, 0, n, s]) == sees_slowly(n, s, num_new, num_steps, num_prefix, row)


def test_pairs_of_a_head_are_turned_by_the_angles_of_their_own_row() -> None:
    heads, angles = torch.randn(2, 3, 4, 6), torch.randn(2, 4, 3)
    both = torch.cat([angles, angles], dim=-1)
    found = turned(heads, Rotation(both.cos(), both.sin()))
    pairs = torch.complex(heads[..., :3], heads[..., 3:]) * torch.polar(torch.ones_like(angles), angles)[:, None]
    assert torch.allclose(found, torch.cat([pairs.real, pairs.imag], dim=-1), atol=1e-5)


def test_heads_stand_side_by_side() -> None:
    x = torch.randn(2, 5, 12)
    heads = heads_of(x, 4)
    assert heads.shape == (2, 3, 5, 4)
    for h in range(3):
        assert torch.equal(heads[:, h], x[..., 4 * h : 4 * h + 4])
