"""SaShiMi: an autoregressive network over samples, with state-space layers at several rates (arXiv 2202.09729).

    classes -> embedding -> tier 0 -> norm -> projection -> outputs          tier:   x ──────────┐ (skip)
                              │ ▲                                                    │ down pool  │
                            tier 1 (4 samples a step, twice as wide)                 inner tier   │
                              │ ▲                                                    │ up pool    │
                            tier 2 (16 samples a step), the centre                   + <──────────┘ -> layers, + skip

The network reads classes and returns, after each, the parameters of a distribution over the next: `outputs[:, t]` has
seen the inputs 0 .. t. To train, shift: `model(previous_classes(classes, model.start(batch)))` predicts `classes`.
A sequence can be cut anywhere, and its pieces read with `forward_with_state`, or one class at a time with `step`.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int64
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from solfa.config import Config
from solfa.errors import ConfigError
from solfa.models.sashimi.linear_path import LinearPath, PastAmplitudes
from solfa.nn.s4d import S4D
from solfa.nn.sashimi_blocks import DownPool, FeedForward, NormKind, Pooled, SsmLayer, Tier, TierState, UpPool


class SashimiState(NamedTuple):
    """What the network remembers about the classes it has read."""

    tier: TierState
    past: Float[Tensor, "B K"]
    """The last amplitudes, the latest first; none if there is no linear path."""
    opening: Int64[Tensor, "B 3"]
    """Energies and number of the first samples (solfa/models/sashimi/opening_levels.py), if anybody reads them."""

    def map(self, change: Callable[[Tensor], Tensor]) -> "SashimiState":
        """Change every tensor, e.g. `state.map(Tensor.detach)` between the segments of truncated training."""
        return SashimiState(self.tier.map(change), change(self.past), change(self.opening))


class SashimiConfig(Config):
    """The size and parts of a SaShiMi."""

    num_classes: int | None = Field(default=None, ge=2)
    """None uses that of the dataset."""
    dim: PositiveInt = 64
    n_layers: PositiveInt = 8
    """State-space layers per tier, with a feed-forward layer after each."""
    pool: tuple[int, ...] = (4, 4)
    """How many steps become one from tier to tier."""
    expand: PositiveInt = 2
    """By what factor the width grows from tier to tier."""
    ff: PositiveInt = 2
    """By what factor the inside of a feed-forward layer is wider."""
    unet: bool = False
    """Also have layers before each pool, each with a skip to its counterpart after it."""
    glu: bool = False
    """Mix channels with gated linear units."""
    d_state: int = Field(default=64, ge=2, multiple_of=2)
    """States per channel, two for each complex mode."""
    tie: Literal["tied", "per_channel"] = "tied"
    """Whether all channels of a layer share A and B; the step dt and C are always per channel."""
    dt_min: float = Field(default=1e-3, gt=0)
    dt_max: float = Field(default=1e-1, gt=0)
    norm: NormKind | None = None
    """The norm before each layer. None has one gain and one bias for all channels; `per_channel` has one of each per
    channel, `shifted` adds its bias before dividing: as networks of state-spaces have them."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    gradient_checkpointing: bool = False
    """Recompute every layer in the backward pass instead of keeping its activations."""

    @model_validator(mode="after")
    def _check(self) -> "SashimiConfig":
        if any(pool < 2 for pool in self.pool):
            raise ValueError(f"expected pools of 2 steps or more, found {list(self.pool)}")
        if self.dt_min > self.dt_max:
            raise ValueError(f"expected dt_min to be at most dt_max, found {self.dt_min:g} and {self.dt_max:g}")
        return self

    def width(self, tier: int) -> int:
        return self.dim * int(self.expand**tier)

    def sized(self, num_classes: int) -> "SashimiConfig":
        """Fill in what the dataset determines, and refuse contradictions."""
        if self.num_classes not in (None, num_classes):
            raise ConfigError(
                f"model.num_classes: the dataset has {num_classes}, found {self.num_classes}; "
                "leave it out to use the dataset's, or choose a dataset that fits the model"
            )
        return self.model_copy(update={"num_classes": num_classes})


class Sashimi(nn.Module):
    """Predicts each class from all classes before it.

    >>> import torch
    >>> from solfa.models import CategoricalHead, Sashimi, SashimiConfig, previous_classes
    >>> head = CategoricalHead(num_classes=16)
    >>> model = Sashimi(SashimiConfig(num_classes=16, dim=8, n_layers=1, d_state=4), head.num_parameters)
    >>> classes = torch.randint(0, 16, (2, 64))  # [B, N]
    >>> outputs = model(previous_classes(classes, model.start(2)))
    >>> head.log_prob(outputs, classes).shape  # nats of every sample
    torch.Size([2, 64])
    """

    def __init__(self, config: SashimiConfig, num_outputs: int, linear_path: LinearPath | None = None) -> None:
        super().__init__()
        if config.num_classes is None:
            raise ConfigError("model.num_classes: expected a number, found none; set it, or take it from a dataset")
        self.config, self.num_classes = config, config.num_classes
        # One more class, to read before the first.
        self.embedding: nn.Module = (
            nn.Embedding(config.num_classes + 1, config.dim) if linear_path is None else linear_path.class_embedding()
        )
        self.tier = build_tier(config)
        self.norm = nn.LayerNorm(config.dim)
        self.projection = nn.Linear(config.dim, num_outputs)
        self.linear_path = linear_path

    def forward(self, inputs: Int64[Tensor, "B N"], state: SashimiState | None = None) -> Float[Tensor, "B N P"]:
        """Read classes after `state` (None at the start) and return the parameters of what follows each."""
        x, heard = self._read(inputs, state)
        return self._outputs(self.tier(x, None if state is None else state.tier)[0], heard)

    def forward_with_state(
        self, inputs: Int64[Tensor, "B N"], state: SashimiState | None = None
    ) -> tuple[Float[Tensor, "B N P"], SashimiState]:
        """Do the same, and also return the state after the last class."""
        embedded, heard = self._read(inputs, state)
        x, tier = self.tier(embedded, None if state is None else state.tier, keep_state=True)
        assert tier is not None
        # A copy, so that a few amplitudes do not keep a long segment in memory.
        past = self._silence(len(inputs)) if heard is None else heard.windows[:, -1].clone()
        opening = self._unheard(len(inputs)) if heard is None else heard.opening
        return self._outputs(x, heard), SashimiState(tier, past, opening)

    def step(self, inputs: Int64[Tensor, "B"], state: SashimiState) -> tuple[Float[Tensor, "B P"], SashimiState]:
        """Read one class by recurrence; many steps equal `forward_with_state`."""
        outputs, state = self.forward_with_state(inputs[:, None], state)
        return outputs[:, 0], state

    def initial_state(self, batch_size: int) -> SashimiState:
        """Return the state of a network that has read nothing."""
        return SashimiState(self.tier.initial_state(batch_size), self._silence(batch_size), self._unheard(batch_size))

    def start(self, batch_size: int) -> Int64[Tensor, "B"]:
        """Return the class to read before the first sample, which is not the class of any sample."""
        return torch.full((batch_size,), self.num_classes, device=self.projection.weight.device)

    @contextmanager
    def fixed(self) -> Iterator[None]:
        """Discretise all layers once for the steps inside, where parameters must not change: twice as fast."""
        with ExitStack() as stack:
            for module in self.modules():
                if isinstance(module, S4D):
                    stack.enter_context(module.fixed())
            yield

    def _read(
        self, inputs: Int64[Tensor, "B N"], state: SashimiState | None
    ) -> tuple[Float[Tensor, "B N D"], PastAmplitudes | None]:
        embedded: Tensor = self.embedding(inputs)
        if self.linear_path is None:
            return embedded, None
        if state is None:
            known = self._silence(len(inputs)), self._unheard(len(inputs))
        else:
            known = state.past, state.opening
        heard = self.linear_path.read(inputs, *known)
        return embedded + heard.embedded, heard

    def _silence(self, batch_size: int) -> Float[Tensor, "B K"]:
        if self.linear_path is None:
            return self.projection.weight.new_zeros(batch_size, 0)
        return self.linear_path.silence(batch_size)

    def _unheard(self, batch_size: int) -> Int64[Tensor, "B 3"]:
        return torch.zeros(batch_size, 3, dtype=torch.int64, device=self.projection.weight.device)

    def _outputs(self, x: Float[Tensor, "B N D"], heard: PastAmplitudes | None) -> Float[Tensor, "B N P"]:
        # Likelihoods are differences between these numbers, so do not round them to bfloat16.
        with torch.autocast(x.device.type, enabled=False):
            normed = self.norm(x)
            outputs: Tensor = self.projection(normed)
            if self.linear_path is not None and heard is not None:
                outputs = self.linear_path.place(outputs, normed, heard)
        return outputs


def build_tier(config: SashimiConfig, depth: int = 0) -> Tier:
    """Build a tier with all slower ones inside it."""
    pooled = None
    if depth < len(config.pool):
        narrow, wide, pool = config.width(depth), config.width(depth + 1), config.pool[depth]
        pooled = Pooled(DownPool(narrow, wide, pool), build_tier(config, depth + 1), UpPool(wide, narrow, pool))
    before = _layers(config, depth) if config.unet and pooled is not None else []
    return Tier(before, pooled, _layers(config, depth), config.gradient_checkpointing)


def _layers(config: SashimiConfig, depth: int) -> list[nn.Module]:
    dim = config.width(depth)
    layers: list[nn.Module] = []
    for _ in range(config.n_layers):
        ssm = S4D(dim, config.d_state, tied=config.tie == "tied", dt_min=config.dt_min, dt_max=config.dt_max)
        layers.append(SsmLayer(ssm, config.glu, config.dropout, config.norm))
        layers.append(FeedForward(dim, config.ff * dim, config.dropout, config.norm))
    return layers


def previous_classes(classes: Int64[Tensor, "B N"], first: Int64[Tensor, "B"]) -> Int64[Tensor, "B N"]:
    """Shift classes right by one: what the network reads to predict them.

    `first` is `model.start(batch)` at the start of a clip, and the previous segment's last class elsewhere.

    >>> import torch
    >>> from solfa.models import previous_classes
    >>> previous_classes(torch.tensor([[5, 6, 7]]), first=torch.tensor([16]))
    tensor([[16,  5,  6]])
    """
    return torch.cat([first[:, None], classes[:, :-1]], dim=1)
