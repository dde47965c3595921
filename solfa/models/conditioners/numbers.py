"""Numbers as conditions: tempo, seconds, loudness."""

import logging
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from solfa.config import Config
from solfa.models.conditioners.protocol import AttributeConfig, Condition, Tokens, keep

logger = logging.getLogger(__name__)

STEPS = 2**20
"""How finely a range is divided. Integers, because low-precision wrappers round every float they are given."""


class LinearFeatures(Config):
    """The number itself, for quantities with an even effect."""

    kind: Literal["linear"]

    @property
    def width(self) -> int:
        return 1

    def __call__(self, fraction: Float[Tensor, "B"]) -> Float[Tensor, "B W"]:
        return fraction[:, None]


class FourierFeatures(Config):
    """The number with its sines and cosines, for fine distinctions: half a turn per range, one, one and a half, up to
    `num_frequencies` half turns."""

    kind: Literal["fourier"] = "fourier"
    num_frequencies: int = Field(default=16, ge=1)

    @property
    def width(self) -> int:
        return 1 + 2 * self.num_frequencies

    def __call__(self, fraction: Float[Tensor, "B"]) -> Float[Tensor, "B W"]:
        halves = torch.arange(1, self.num_frequencies + 1, device=fraction.device)
        angles = math.pi * fraction[:, None] * halves
        return torch.cat([fraction[:, None], angles.sin(), angles.cos()], dim=1)


class NumberConfig(AttributeConfig):
    """A number from a metadata column, clamped to a range."""

    kind: Literal["number"]
    fuse: Literal["cross", "prepend", "sum"] = "sum"
    min: float
    max: float
    features: Annotated[LinearFeatures | FourierFeatures, Field(discriminator="kind")] = FourierFeatures()

    @model_validator(mode="after")
    def _has_a_range(self) -> "NumberConfig":
        if not self.min < self.max:
            raise ValueError(f"expected min below max, found {self.min:g} and {self.max:g}")
        return self

    def build(self, dim: int) -> "NumberConditioner":
        return NumberConditioner(self, dim)


class NumberConditioner(nn.Module):
    """One vector per clip: fixed features of the number, then a learned projection."""

    def __init__(self, config: NumberConfig, dim: int) -> None:
        super().__init__()
        self.config = config
        self.output_proj = nn.Linear(config.features.width, dim)
        self._reported: set[str] = set()

    def tokenize(self, values: Sequence[Any | None]) -> Tokens:
        """Place the numbers in their range, -1 if absent; anything else counts as absent, with one warning."""
        return {"steps": torch.tensor([self._step(value) for value in values], dtype=torch.int64)}

    def embed(self, tokens: Tokens) -> Condition:
        weight = self.output_proj.weight
        steps = tokens["steps"].to(weight.device)
        features = self.config.features(steps.float() / STEPS)
        return keep(self.output_proj(features.to(weight.dtype))[:, None], steps[:, None] >= 0)

    def _step(self, value: Any | None) -> int:
        number = self._number(value)
        if number is None:
            return -1
        low, high = self.config.min, self.config.max
        return round((min(max(number, low), high) - low) / (high - low) * STEPS)

    def _number(self, value: Any | None) -> float | None:
        if value is None or value == "":
            return None
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.inf
        if math.isinf(number) and repr(value) not in self._reported:
            self._reported.add(repr(value))
            logger.warning("%s: expected a number, found %r; it counts as absent", self.config.source, value)
        return number if math.isfinite(number) else None
