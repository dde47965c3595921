"""Attention against its definition, one query at a time."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from solfa.nn.attention import (
    CrossAttention,
    SelfAttention,
    _is_faster_in_blocks,
    causal_attention,
    join_heads,
    split_heads,
)


def attend_slowly(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attend with one query [E] to keys and values [S, E]."""
    scores = torch.stack([(query * key).sum() for key in keys]) / math.sqrt(len(query))
    weights = scores.exp() / scores.exp().sum()
    return sum((w * value for w, value in zip(weights, values, strict=True)), torch.zeros_like(query))


@pytest.mark.parametrize(("num_new", "num_steps"), [(5, 5), (1, 1), (1, 6), (3, 7)])
def test_the_queries_are_the_last_steps_and_see_no_later_one(num_new: int, num_steps: int) -> None:
    queries = torch.randn(2, 2, num_new, 4)
    keys, values = torch.randn(2, 2, num_steps, 4), torch.randn(2, 2, num_steps, 4)
    attended = causal_attention(queries, keys, values)
    for b in range(2):
        for h in range(2):
            for n in range(num_new):
                seen = num_steps - num_new + n + 1
                expected = attend_slowly(queries[b, h, n], keys[b, h, :seen], values[b, h, :seen])
                assert torch.allclose(attended[b, h, n], expected, atol=1e-5)


@pytest.mark.parametrize("num_steps", [256, 259, 301])
def test_attention_in_blocks_is_that_of_float64_but_for_the_rounding_of_bfloat16(num_steps: int) -> None:
    parts = [torch.randn(2, 2, num_steps, 8).bfloat16().requires_grad_() for _ in range(3)]
    assert _is_faster_in_blocks(parts[0])
    exact = [part.detach().double().requires_grad_() for part in parts]
    found, wanted = causal_attention(*parts), F.scaled_dot_product_attention(*exact, is_causal=True)
    pull = torch.randn_like(wanted).bfloat16()
    found.backward(pull)
    wanted.backward(pull.double())
    # Scores, weights and results are rounded to 8 bits, each of them once or twice.
    bound = 8 * 2**-8
    assert (found.double() - wanted).abs().max() <= bound * wanted.abs().max()
    for one, other in zip(parts, exact, strict=True):
        assert one.grad is not None and other.grad is not None
        assert (one.grad.double() - other.grad).abs().max() <= bound * other.grad.abs().max()


def test_blocks_are_for_training_long_sequences_in_bfloat16_alone() -> None:
    long = torch.zeros(1, 1, 256, 4, dtype=torch.bfloat16, requires_grad=True)
    assert _is_faster_in_blocks(long)
    assert not _is_faster_in_blocks(long.detach()) and not _is_faster_in_blocks(long[:, :, 1:])
    assert not _is_faster_in_blocks(long.detach().float().requires_grad_())
    assert not _is_faster_in_blocks(long.expand(1, 1024, 256, 4))


def test_heads_are_cut_part_by_part_and_joined_in_order() -> None:
    fused = torch.arange(2 * 3 * 12.0).view(2, 3, 12)
    first, second = split_heads(fused, 2, 3)
    assert first.shape == (2, 3, 3, 2)
    assert torch.equal(join_heads(first), fused[..., :6]) and torch.equal(join_heads(second), fused[..., 6:])


def test_self_attention_projects_queries_keys_and_values_in_this_order() -> None:
    layer, x = SelfAttention(8, 2), torch.randn(2, 5, 8)
    q, k, v = ((x @ w.T).view(2, 5, 2, 4).transpose(1, 2) for w in layer.qkv.weight.chunk(3))
    expected = join_heads(causal_attention(q, k, v)) @ layer.out.weight.T
    assert torch.allclose(layer(x), expected, atol=1e-6)


def test_cross_attention_sees_what_is_not_masked_and_nothing_else() -> None:
    layer, x, condition = CrossAttention(8, 2), torch.randn(2, 3, 8), torch.randn(2, 4, 8)
    mask = torch.tensor([[True, True, False, False], [True, True, True, True]])
    attended = layer(x, condition, mask)
    assert torch.allclose(attended[:1], layer(x[:1], condition[:1, :2]), atol=1e-6)
    changed = condition.clone()
    changed[0, 2:] += 100
    assert torch.equal(layer(x, changed, mask), attended)
    changed[0, 1] += 1
    assert not torch.allclose(layer(x, changed, mask)[0], attended[0])


def test_a_condition_of_zeros_adds_exactly_nothing() -> None:
    layer = CrossAttention(8, 2)
    attended = layer(torch.randn(2, 3, 8), torch.zeros(2, 4, 8), torch.ones(2, 4, dtype=torch.bool))
    assert torch.equal(attended, torch.zeros(2, 3, 8))
