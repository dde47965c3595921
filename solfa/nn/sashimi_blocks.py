"""The parts of SaShiMi: residual layers, causal pooling, and tiers of both (arXiv 2202.09729).

    state-space layer   x + mix(gelu(s4d(norm(x))))         mix: linear, or gated linear (GLU)
    feed-forward        x + linear(gelu(linear(norm(x))))
    DownPool            p steps side by side, one linear:  p D numbers to D'
    UpPool              one linear to p steps of D numbers, heard one pooled step later
    tier                z = x + up(inner tier(down(x)));  z + layers(z)

All run on [B, S, D] and take any number of steps. A step at the pooled rate is computed once its p inputs are there,
and its outputs are for the p steps after them; waiting inputs and outputs for later are part of the state, so that a
sequence can be cut at any phase.
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from solfa.nn.s4d import S4D, State

EPSILON = 1e-5
"""What a norm increases the variance by, as torch's LayerNorm does."""


class ChannelNorm(nn.Module):
    """LayerNorm with one gain and one bias for all channels: the layer that follows has its own per channel."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.weight = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        return F.layer_norm(x, (self.dim,), self.weight.expand(self.dim), self.bias.expand(self.dim), EPSILON)


class ShiftedNorm(nn.Module):
    """The norm of state-spaces' SaShiMi: like `ChannelNorm`, but the bias is added before the division, not after.

    gain (x - mean + shift) / deviation, with nothing to keep a deviation of zero from being divided by.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))
        self.shift = nn.Parameter(torch.zeros(1))
        for parameter in self.parameters():
            parameter._no_weight_decay = True  # type: ignore[attr-defined]

    def forward(self, x: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        deviation, mean = torch.std_mean(x, dim=-1, correction=0, keepdim=True)
        normed: Tensor = self.gain * (x - mean + self.shift) / deviation
        return normed


NormKind = Literal["per_channel", "shifted"]
"""Norms other than `ChannelNorm`: torch's LayerNorm, and `ShiftedNorm`."""


def build_norm(kind: NormKind | None, dim: int) -> nn.Module:
    """Build the norm that a layer begins with."""
    if kind is None:
        return ChannelNorm(dim)
    return nn.LayerNorm(dim) if kind == "per_channel" else ShiftedNorm()


class SsmLayer(nn.Module):
    """A residual state-space layer: mixes time within each channel, then channels with each other."""

    def __init__(self, ssm: S4D, glu: bool, dropout: float, norm: NormKind | None = None) -> None:
        super().__init__()
        self.glu, self.dropout = glu, dropout
        self.norm = build_norm(norm, ssm.dim)
        self.ssm = ssm
        self.mix = nn.Linear(ssm.dim, (2 if glu else 1) * ssm.dim)

    def forward(
        self, x: Float[Tensor, "B S D"], state: State | None = None, keep_state: bool = False
    ) -> tuple[Float[Tensor, "B S D"], State | None]:
        heard, state = self.ssm(self.norm(x), state, keep_state)
        mixed = self.mix(F.dropout(F.gelu(heard), self.dropout, self.training))
        added = F.glu(mixed) if self.glu else mixed
        return x + F.dropout(added, self.dropout, self.training), state


class FeedForward(nn.Module):
    """A residual feed-forward layer, without a state."""

    def __init__(self, dim: int, inner_dim: int, dropout: float, norm: NormKind | None = None) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm = build_norm(norm, dim)
        self.fc1 = nn.Linear(dim, inner_dim)
        self.fc2 = nn.Linear(inner_dim, dim)

    def forward(
        self, x: Float[Tensor, "B S D"], state: None = None, keep_state: bool = False
    ) -> tuple[Float[Tensor, "B S D"], None]:
        inner = F.dropout(F.gelu(self.fc1(self.norm(x))), self.dropout, self.training)
        return x + F.dropout(self.fc2(inner), self.dropout, self.training), None


class DownPool(nn.Module):
    """Turn every `pool` steps into one wider step."""

    def __init__(self, dim: int, wider: int, pool: int) -> None:
        super().__init__()
        self.pool = pool
        self.linear = nn.Linear(dim * pool, wider)

    def forward(
        self, x: Float[Tensor, "B S D"], waiting: Float[Tensor, "B W D"]
    ) -> tuple[Float[Tensor, "B s d"], Float[Tensor, "B w D"]]:
        """Return the completed steps, possibly none, and the inputs that wait for the next one."""
        joined = torch.cat([waiting, x], dim=1)
        complete = joined.shape[1] // self.pool * self.pool
        groups = joined[:, :complete].reshape(len(x), -1, self.linear.in_features)
        # The residual stream keeps its dtype under autocast.
        return self.linear(groups).to(x.dtype), joined[:, complete:]


class UpPool(nn.Module):
    """Turn every step into `pool` narrower steps."""

    def __init__(self, wider: int, dim: int, pool: int) -> None:
        super().__init__()
        self.dim, self.pool = dim, pool
        self.linear = nn.Linear(wider, dim * pool)

    def forward(self, x: Float[Tensor, "B s d"]) -> Float[Tensor, "B S D"]:
        fine: Tensor = self.linear(x).to(x.dtype)
        return fine.reshape(len(x), -1, self.dim)


class PooledState(NamedTuple):
    """The state at the border of two rates where a sequence was cut."""

    waiting: Float[Tensor, "B W D"]
    """Inputs that do not fill a pooled step yet; fewer than the pool."""
    ready: Float[Tensor, "B R D"]
    """Outputs for the next steps; together with the waiting inputs, as many as the pool."""
    inner: "TierState"


class TierState(NamedTuple):
    """What a tier remembers from earlier steps; None for layers without a state."""

    down: tuple[State | None, ...]
    up: tuple[State | None, ...]
    pooled: PooledState | None

    def map(self, change: Callable[[Tensor], Tensor]) -> "TierState":
        """Change every tensor, e.g. `state.map(Tensor.detach)` between the segments of truncated training."""
        down, up = (tuple(None if part is None else change(part) for part in parts) for parts in self[:2])
        if self.pooled is None:
            return TierState(down, up, None)
        waiting, ready, inner = self.pooled
        return TierState(down, up, PooledState(change(waiting), change(ready), inner.map(change)))


class Pooled(nn.Module):
    """A tier at a slower rate, connected through its pools."""

    def __init__(self, down: DownPool, inner: "Tier", up: UpPool) -> None:
        super().__init__()
        self.down, self.inner, self.up = down, inner, up

    def forward(
        self, x: Float[Tensor, "B S D"], state: PooledState | None = None, keep_state: bool = False
    ) -> tuple[Float[Tensor, "B S D"], PooledState | None]:
        num_steps = x.shape[1]
        waiting, ready, inner = state or (*self._nothing(len(x)), None)
        pooled, waiting = self.down(x, waiting)
        if pooled.shape[1]:
            pooled, inner = self.inner(pooled, inner, keep_state)
            ready = torch.cat([ready, self.up(pooled)], dim=1)
        heard = ready[:, :num_steps]
        if not keep_state:
            return heard, None
        inner = inner or self.inner.initial_state(len(x))
        # Copies, so that a few steps do not keep a long segment in memory.
        return heard, PooledState(waiting.clone(), ready[:, num_steps:].clone(), inner)

    def initial_state(self, batch_size: int) -> PooledState:
        return PooledState(*self._nothing(batch_size), self.inner.initial_state(batch_size))

    def _nothing(self, batch_size: int) -> tuple[Float[Tensor, "B 0 D"], Float[Tensor, "B R D"]]:
        zeros = self.up.linear.weight.new_zeros(batch_size, self.up.pool, self.up.dim)
        return zeros[:, :0], zeros


class Tier(nn.Module):
    """The layers at one rate: optionally some before its pools, the others after.

    Layers before the pools pass their outputs to their counterparts after them (a U-Net); without them, the input of
    the layers is added to their output.
    """

    def __init__(
        self, down: Iterable[nn.Module], pooled: Pooled | None, up: Iterable[nn.Module], checkpointed: bool
    ) -> None:
        super().__init__()
        self.down, self.pooled, self.up = nn.ModuleList(down), pooled, nn.ModuleList(up)
        self.checkpointed = checkpointed

    def forward(
        self, x: Float[Tensor, "B S D"], state: TierState | None = None, keep_state: bool = False
    ) -> tuple[Float[Tensor, "B S D"], TierState | None]:
        before, behind, pooled = state or ((None,) * len(self.down), (None,) * len(self.up), None)
        down, up, skips = [], [], []
        for layer, memory in zip(self.down, before, strict=True):
            skips.append(x)
            x, memory = self._run(layer, x, memory, keep_state)
            down.append(memory)
        if self.pooled is not None:
            heard, pooled = self.pooled(x, pooled, keep_state)
            x = x + heard
        # Without counterparts, only the last layer has something to add: the input of the first.
        added = skips[::-1] or [None] * (len(self.up) - 1) + [x]
        for layer, memory, skip in zip(self.up, behind, added, strict=True):
            x, memory = self._run(layer, x, memory, keep_state)
            x = x if skip is None else x + skip
            up.append(memory)
        return x, TierState(tuple(down), tuple(up), pooled) if keep_state else None

    def initial_state(self, batch_size: int) -> TierState:
        down, up = (
            tuple(layer.ssm.initial_state(batch_size) if isinstance(layer, SsmLayer) else None for layer in layers)
            for layers in (self.down, self.up)
        )
        return TierState(down, up, None if self.pooled is None else self.pooled.initial_state(batch_size))

    def _run(
        self, layer: nn.Module, x: Float[Tensor, "B S D"], state: State | None, keep_state: bool
    ) -> tuple[Float[Tensor, "B S D"], State | None]:
        if self.checkpointed and torch.is_grad_enabled():
            again: tuple[Tensor, Tensor | None] = checkpoint(layer, x, state, keep_state, use_reentrant=False)
            return again
        once: tuple[Tensor, Tensor | None] = layer(x, state, keep_state)
        return once
