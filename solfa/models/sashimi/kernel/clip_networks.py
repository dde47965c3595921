"""Networks for the C kernel: one set of weights, and separate memory for each group of clips."""

import ctypes
import math
from typing import NamedTuple

import torch
from jaxtyping import Float32
from torch import Tensor

from solfa.models.sashimi.heads import DmlHead, OutputHead
from solfa.models.sashimi.kernel import structures
from solfa.models.sashimi.kernel.packed_weights import pack_layers, pack_linear, pack_rows, pack_state
from solfa.models.sashimi.network import Sashimi, SashimiState
from solfa.nn.kernels.memory import joined
from solfa.nn.sashimi_blocks import SsmLayer, Tier
from solfa.ops import logistic_mixture


class TierWeights(NamedTuple):
    """Where the weights of a tier start."""

    down: int
    down_pool: int
    up_pool: int
    up: int


class PackedWeights(NamedTuple):
    """All weights in one block of memory, and where each part starts."""

    memory: Float32[Tensor, "_"]
    embedding: int
    norm: int
    projection: int
    tiers: list[TierWeights]


def tiers_of(model: Sashimi) -> list[Tier]:
    """List the tiers, the fastest first."""
    tiers = [model.tier]
    while tiers[-1].pooled is not None:
        tiers.append(tiers[-1].pooled.inner)
    return tiers


@torch.no_grad()
def pack_weights(model: Sashimi) -> PackedWeights:
    """Copy the current weights."""
    parts = [pack_rows(model.embedding.weight), pack_rows(torch.stack([model.norm.weight, model.norm.bias]))]
    parts.append(pack_linear(model.projection))
    for tier in tiers_of(model):
        pools = [torch.empty(0), torch.empty(0)]
        if tier.pooled is not None:
            pool = tier.pooled.up.pool
            pools = [
                pack_linear(tier.pooled.down.linear, in_groups=pool),
                pack_linear(tier.pooled.up.linear, out_groups=pool),
            ]
        parts += [pack_layers(tier.down), *pools, pack_layers(tier.up)]
    memory, addresses = joined(parts)
    tiers = [TierWeights(*addresses[at : at + 4]) for at in range(3, len(addresses), 4)]
    embedding, norm, projection = addresses[:3]
    return PackedWeights(memory, embedding, norm, projection, tiers)


def grid_of(head: OutputHead) -> structures.Grid:
    """Describe the mixture that the kernel draws from; empty for all other heads."""
    if not isinstance(head, DmlHead):
        return structures.Grid()
    steps = (head.num_classes - 1) / 2
    return structures.Grid(
        *(head.num_classes, head.num_mixtures, steps, math.log(steps), head.smallest_log_scale),
        *(logistic_mixture.LARGEST_MEAN, *logistic_mixture.LOG_SCALE_LIMITS, logistic_mixture.FAR),
    )


class ClipGroup:
    """Some clips that one thread steps together."""

    def __init__(self, model: Sashimi, head: OutputHead, weights: PackedWeights, num_clips: int) -> None:
        self.num_clips, self._weights = num_clips, weights
        self._modules, self._buffers = tiers_of(model), list[Tensor]()
        self._tiers = (structures.Tier * len(self._modules))()
        self._states: list[Tensor] = []
        for at in reversed(range(len(self._modules))):
            self._set_tier(model, at)
        self._states.reverse()
        num_outputs, width = model.projection.out_features, structures.padded(model.config.dim)
        many = structures.padded(num_outputs)
        self.network = structures.Network(
            *(num_clips, len(self._modules), num_outputs, many, self._tiers),
            *(weights.embedding, weights.norm, weights.projection),
            *(self._floats(num_clips, width), self._floats(num_clips, many), self._floats(many)),
            grid_of(head),
        )

    def _floats(self, *shape: int) -> int:
        self._buffers.append(torch.zeros(shape))
        return self._buffers[-1].data_ptr()

    def _set_tier(self, model: Sashimi, at: int) -> None:
        config, module, clips = model.config, self._modules[at], self.num_clips
        width, pool = config.width(at), 0 if module.pooled is None else module.pooled.up.pool
        filled, inner = structures.padded(width), structures.padded(config.ff * width)
        num_down, num_up = len(module.down) // 2, len(module.up) // 2
        num_modes = config.d_state // 2
        sizes = (width, filled, inner, num_modes, int(config.glu), num_down, num_up, pool, 0, 0)
        states = torch.zeros(clips, num_down + num_up, 2 * filled * (num_modes + structures.BURST))
        self._states.append(states)
        wider = structures.padded(config.width(at + 1))
        waiting, ready = self._floats(clips, pool, filled), self._floats(clips, pool, filled)
        memories = (states.data_ptr(), waiting, ready, self._floats(clips, wider), self._floats(clips, filled))
        scratch = (self._floats(clips, max(inner, 2 * filled)), self._floats(max(1, 2 * num_down), clips, filled))
        self._tiers[at] = structures.Tier(*sizes, *self._weights.tiers[at], *memories, *scratch)

    def load(self, state: SashimiState, clips: slice) -> None:
        """Load the state of some clips."""
        for module, tier, memory in zip(self._modules, self._tiers, self._states, strict=True):
            layers = [layer for layer in (*module.down, *module.up) if isinstance(layer, SsmLayer)]
            kept = [part for part in (*state.down, *state.up) if part is not None]
            for at, (layer, part) in enumerate(zip(layers, kept, strict=True)):
                packed = pack_state(layer.ssm, part[clips])
                memory[:, at, : packed.shape[1]] = packed
            if state.pooled is None:
                break
            waiting, ready, inner = state.pooled
            tier.phase = waiting.shape[1]
            _copy_rows(waiting[clips], tier.waiting, tier, 0)
            _copy_rows(ready[clips], tier.ready, tier, tier.phase)
            state = inner


def _copy_rows(rows: Tensor, address: int, tier: structures.Tier, begin: int) -> None:
    """Copy the channels of some steps into one of the kernel's buffers, [clip][pool][padded], starting at a step."""
    shape = (len(rows), tier.pool, tier.padded)
    memory = (ctypes.c_float * math.prod(shape)).from_address(address)
    buffer = torch.frombuffer(memory, dtype=torch.float32).view(shape)
    buffer[:, begin : begin + rows.shape[1], : tier.width] = rows
