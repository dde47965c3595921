"""Merge adapters into the weights they belong to: one matrix again, and nothing beside it.

Each adapter is a change of the base's weights. Several with factors are the base plus so much of each change:

    W + sum over adapters of factor * (W_adapted - W)
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from solfa.models.adapters.attachment import (
    StoredAdapter,
    attach,
    base_sha256,
    detach,
    load_adapter,
    lora_layers,
    parse_lora,
    part_to_adapt,
    put_fresh,
    refuse_other_base,
)
from solfa.pretrained.origin import Origin


class WeightedAdapter(NamedTuple):
    """A stored adapter, and how much of its change is wanted."""

    stored: StoredAdapter
    factor: float = 1.0
    where: str = "adapter"
    """Where it was found, for messages."""


class Change(NamedTuple):
    """The weight of a layer without an adapter and with it."""

    name: str
    before: Tensor
    after: Tensor


@torch.no_grad()
def merge_adapters(network: nn.Module, adapters: Sequence[WeightedAdapter], base_name: str) -> None:
    """Change a network that holds the weights of their base as the adapters say, each by its factor."""
    if not adapters:
        return
    fresh = adapters[0].stored["fresh"]
    put_fresh(network, fresh)
    base = Origin(source=base_name, sha256=base_sha256(network, list(fresh)))
    for adapter in adapters:
        refuse_other_base(adapter.stored, base, adapter.where)
    merged: dict[str, Tensor] = {}
    for adapter in adapters:
        for name, change in _changes(network, adapter, base).items():
            # All of a single change is its weight itself, not something rounded on the way to it.
            is_whole = adapter.factor == 1.0 and name not in merged
            so_far = merged.get(name, change.before)
            merged[name] = change.after if is_whole else so_far + adapter.factor * (change.after - change.before)
    part = part_to_adapt(network)
    for name, weight in merged.items():
        part.get_parameter(f"{name}.weight").copy_(weight)


def _changes(network: nn.Module, adapter: WeightedAdapter, base: Origin) -> dict[str, Change]:
    """Return what an adapter makes of the layers it changes; the network stays as it is."""
    stored = adapter.stored
    attached = attach(network, parse_lora(stored, adapter.where), base)
    load_adapter(network, stored, adapter.where)
    found = {change.name: change for change in layer_changes(attached.part)}
    detach(network)
    return found


@torch.no_grad()
def layer_changes(part: nn.Module) -> Iterator[Change]:
    """Yield the weight of every adapted layer without its adapter and merged with it."""
    for name, layer in lora_layers(part).items():
        weight = layer.get_base_layer().weight
        before = weight.detach().clone()
        layer.merge()
        after = layer.get_base_layer().weight.detach().clone()
        # `unmerge` would subtract what was added, which rounds.
        layer.merged_adapters.clear()
        layer.get_base_layer().weight.data.copy_(before)
        yield Change(name, before, after)
