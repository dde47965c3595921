"""The cache: what was written is given back, and it says when it is full."""

import pytest
import torch

from solfa.errors import ConfigError
from solfa.nn.attention import CrossAttention
from solfa.nn.key_value_cache import KeyValueCache


def test_appended_steps_stand_behind_each_other_in_their_layer() -> None:
    cache = KeyValueCache(num_layers=2, batch_size=1, num_heads=2, max_steps=5, head_dim=3)
    keys, values = torch.randn(2, 1, 2, 5, 3), torch.randn(2, 1, 2, 5, 3)
    start = 0
    for num_steps in (2, 1, 2):
        stop = start + num_steps
        for layer in range(2):
            got = cache.append(layer, keys[layer, :, :, start:stop], values[layer, :, :, start:stop])
            assert torch.equal(got[0], keys[layer, :, :, :stop]) and torch.equal(got[1], values[layer, :, :, :stop])
        cache.advance(num_steps)
        start = stop
        assert cache.position == start


def test_integers_are_read_as_rounded_to_127_parts_of_the_largest_of_a_head() -> None:
    cache = KeyValueCache(num_layers=2, batch_size=2, num_heads=2, max_steps=9, head_dim=32, dtype=torch.int8)
    keys, values = (100 * torch.randn(2, 2, 9, 32), torch.randn(2, 2, 9, 32))
    keys[0, 0, 3] = 0
    for start, stop in ((0, 2), (2, 3), (3, 9)):
        got = cache.append(1, keys[:, :, start:stop], values[:, :, start:stop])
        for found, wanted in zip(got, (keys, values), strict=True):
            step = wanted[:, :, :stop].abs().amax(-1, keepdim=True) / 127
            assert ((found - wanted[:, :, :stop]).abs() <= 0.501 * step).all()
        cache.advance(stop - start)
    assert not cache.keys[0].any() and not cache.values[0].any()
    # What the kernel reads: the values of four steps side by side.
    stored = cache.values[1].view(2, 2, 4, 32, 4)
    assert torch.equal(stored[:, :, 1, :, 2] * cache.scales[1][1, :, :, 6, None], got[1][:, :, 6])


def test_more_steps_than_there_is_room_for_are_refused() -> None:
    cache = KeyValueCache(num_layers=1, batch_size=1, num_heads=1, max_steps=4, head_dim=2)
    cache.advance(3)
    with pytest.raises(ConfigError, match="at most 4 steps, found 5"):
        cache.append(0, torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2, 2))


def test_the_condition_is_projected_once() -> None:
    layer, x = CrossAttention(8, 2), torch.randn(1, 1, 8)
    cache = KeyValueCache(num_layers=1, batch_size=1, num_heads=2, max_steps=4, head_dim=4)
    first, other = torch.randn(1, 3, 8), torch.randn(1, 3, 8)
    attended = layer(x, first, None, cache)
    assert torch.equal(layer(x, other, None, cache), attended)


def test_a_cache_larger_than_the_memory_is_refused_with_its_size() -> None:
    with pytest.raises(ConfigError, match=r"1,000,000,000 steps: would take 3,146 TB of memory"):
        KeyValueCache(24, 16, 16, 10**9, 64)
