"""Networks for the C kernel: one set of weights, and separate memory for each group of clips."""

import ctypes
import math
from typing import NamedTuple

import torch
from jaxtyping import Float32
from torch import Tensor, nn

from solfa.models.sashimi.heads import DmlHead, OutputHead
from solfa.models.sashimi.kernel import structures
from solfa.models.sashimi.kernel.packed_weights import pack_layers, pack_linear, pack_rows, pack_state
from solfa.models.sashimi.linear_path import LARGEST_LOG_SCALE, LinearPath
from solfa.models.sashimi.network import Sashimi, SashimiState
from solfa.models.sashimi.opening_levels import UNIT, Opening
from solfa.nn.kernels.memory_block import block_of, joined
from solfa.nn.sashimi_blocks import SsmLayer, Tier, TierState
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
    path: "PackedPath | None"


class PackedPath(NamedTuple):
    """What a linear path needs besides weights: what it computes with is float64, or as the network keeps it."""

    coefficients: Tensor
    borders: Tensor
    amplitudes: Tensor
    residuals: Tensor
    whitening: Tensor
    error: float
    opening: "PackedOpening | None"


class PackedOpening(NamedTuple):
    """What reading the level of the first samples takes."""

    num_samples: int
    borders: Tensor
    amplitude_levels: Tensor
    residual_levels: Tensor


def tiers_of(model: Sashimi) -> list[Tier]:
    """List the tiers, the fastest first."""
    tiers = [model.tier]
    while tiers[-1].pooled is not None:
        tiers.append(tiers[-1].pooled.inner)
    return tiers


@torch.no_grad()
def pack_weights(model: Sashimi) -> PackedWeights:
    """Copy the current weights."""
    # As the network reads each class, so that both begin with the same numbers to the bit.
    rows = model.embedding(torch.arange(model.num_classes + 1))
    parts = [pack_rows(rows), pack_rows(torch.stack([model.norm.weight, model.norm.bias]))]
    parts.append(pack_linear(_last_layer(model)))
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
    path = None if model.linear_path is None else _pack_path(model.linear_path)
    return PackedWeights(memory, embedding, norm, projection, tiers, path)


def _last_layer(model: Sashimi) -> nn.Linear:
    """Join what the head and what the linear path take from the network into one layer."""
    if model.linear_path is None:
        return model.projection
    layers = (model.projection, model.linear_path.turns)
    both = nn.Linear(model.config.dim, sum(layer.out_features for layer in layers))
    both.weight.copy_(torch.cat([layer.weight for layer in layers]))
    both.bias.copy_(torch.cat([layer.bias for layer in layers]))
    return both


def _pack_path(path: LinearPath) -> PackedPath:
    return PackedPath(
        path.coefficients.double(),
        path.borders.clone(),
        path.amplitudes.clone(),
        pack_rows(path.residuals.weight),
        path.whitening.T.contiguous().clone(),
        float(path.error),
        None if path.opening is None else _pack_opening(path.opening),
    )


def _pack_opening(opening: Opening) -> PackedOpening:
    rows = (pack_rows(levels.weight) for levels in (opening.amplitudes, opening.residuals))
    return PackedOpening(opening.num_samples, opening.borders.clone(), *rows)


def grid_of(head: OutputHead) -> structures.Grid:
    """Describe the mixture that the kernel draws from; empty for all other heads."""
    if not isinstance(head, DmlHead):
        return structures.Grid()
    steps = (head.num_classes - 1) / 2 if head.borders is None else 1.0
    return structures.Grid(
        *(head.num_classes, head.num_mixtures, steps, math.log(steps), head.smallest_log_scale),
        *(logistic_mixture.LARGEST_MEAN, *logistic_mixture.LOG_SCALE_LIMITS, logistic_mixture.FAR),
        None if head.borders is None else head.borders.data_ptr(),
    )


class ThreadClips:
    """Some clips that one thread steps together."""

    def __init__(self, model: Sashimi, head: OutputHead, weights: PackedWeights, num_clips: int) -> None:
        self.num_clips, self._weights, self._head = num_clips, weights, head
        self._modules, self._buffers = tiers_of(model), list[Tensor]()
        self._tiers = (structures.Tier * len(self._modules))()
        self._states: list[Tensor] = []
        for at in reversed(range(len(self._modules))):
            self._set_tier(model, at)
        self._states.reverse()
        num_outputs, width = model.projection.out_features, structures.padded(model.config.dim)
        order = 0 if model.linear_path is None else model.linear_path.order
        many = structures.padded(num_outputs + order)
        self._past = torch.zeros(num_clips, order)
        self._opening = torch.zeros(num_clips, 3, dtype=torch.int64)
        self.network = structures.Network(
            *(num_clips, len(self._modules), model.num_classes, num_outputs, many, self._tiers),
            *(weights.embedding, weights.norm, weights.projection),
            *(self._floats(num_clips, width), self._floats(num_clips, many), self._floats(many)),
            grid_of(head),
            self._path(),
        )

    def _path(self) -> structures.Path:
        path = self._weights.path
        if path is None:
            return structures.Path()
        self._buffers.append(torch.zeros(self.num_clips, dtype=torch.float64))
        made = structures.Path(
            *(len(path.coefficients), len(path.borders), *(part.data_ptr() for part in path[:5])),
            *(path.error, LARGEST_LOG_SCALE, self._past.data_ptr(), self._buffers[-1].data_ptr()),
        )
        if (opening := path.opening) is not None:
            made.opening_samples, made.num_level_borders = opening.num_samples, len(opening.borders)
            made.opening_unit, made.level_borders = UNIT, opening.borders.data_ptr()
            made.amplitude_levels = opening.amplitude_levels.data_ptr()
            made.residual_levels = opening.residual_levels.data_ptr()
            made.opening = self._opening.data_ptr()
        return made

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
        shape = (num_down + num_up, clips * 2 * filled * (num_modes + structures.BURST))
        states = block_of(4 * math.prod(shape)).view(torch.float32).view(shape)
        self._states.append(states)
        wider = structures.padded(config.width(at + 1))
        waiting, ready = self._floats(clips, pool, filled), self._floats(clips, pool, filled)
        memories = (states.data_ptr(), waiting, ready, self._floats(clips, wider), self._floats(clips, filled))
        scratch = (self._floats(clips, max(inner, 2 * filled)), self._floats(max(1, 2 * num_down), clips, filled))
        self._tiers[at] = structures.Tier(*sizes, *self._weights.tiers[at], *memories, *scratch)

    def load(self, state: SashimiState, clips: slice) -> None:
        """Load the state of some clips."""
        self._past.copy_(state.past[clips])
        self._opening.copy_(state.opening[clips])
        self._load_tiers(state.tier, clips)

    def _load_tiers(self, state: TierState, clips: slice) -> None:
        for module, tier, memory in zip(self._modules, self._tiers, self._states, strict=True):
            layers = [layer for layer in (*module.down, *module.up) if isinstance(layer, SsmLayer)]
            kept = [part for part in (*state.down, *state.up) if part is not None]
            for at, (layer, part) in enumerate(zip(layers, kept, strict=True)):
                packed = pack_state(layer.ssm, part[clips])
                memory[at, : len(packed)] = packed
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
