"""The settings of a SaShiMi: the sizes of its network, and its head, as `output_head: dml` and `n_mixtures: 10`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from solfa.config import Config
from solfa.models.sashimi.heads import CategoricalHead, DmlHead
from solfa.models.sashimi.linear_path import LinearPath
from solfa.models.sashimi.network import SashimiConfig
from solfa.ops.class_grid import Grid

_MOMENT_WEIGHT = 3.0


class CategoricalHeadConfig(Config):
    """One logit per class."""

    kind: Literal["categorical"] = "categorical"

    def build(self, grid: Grid) -> CategoricalHead:
        """Build the head for the classes of a grid."""
        return CategoricalHead(grid.num_classes)

    def linear_path(self, grid: Grid, dim: int) -> None:
        """Logits have no means for a linear path to lead to."""


class DmlHeadConfig(Config):
    """A discretised mixture of logistics."""

    kind: Literal["dml"] = "dml"
    n_mixtures: PositiveInt = 10
    prediction_order: NonNegativeInt = 16
    """How many amplitudes a linear path leads from to the means; 0 has none, and the network finds the means alone."""
    opening_samples: NonNegativeInt = 0
    """How many first samples of a clip tell the network, for the rest of it, how loud it began; 0 does not tell."""
    moment_weight: NonNegativeFloat | None = None
    """How much training minds the mean and variance of the mixture besides its likelihood; None is 3 with a linear
    path. Without one there is none: amplitudes are not what such a mixture is about."""

    @model_validator(mode="after")
    def _check(self) -> "DmlHeadConfig":
        for name in ("moment_weight", "opening_samples"):
            if (found := getattr(self, name)) and not self.prediction_order:
                raise ValueError(f"{name}: found {found:g} without a linear path; remove it, or set prediction_order")
        return self

    def build(self, grid: Grid) -> DmlHead:
        """Build the head for the classes of a grid."""
        weight = _MOMENT_WEIGHT if self.moment_weight is None else self.moment_weight
        if not self.prediction_order:
            return DmlHead(grid.num_classes, self.n_mixtures)
        return DmlHead(grid.num_classes, self.n_mixtures, grid, weight)

    def linear_path(self, grid: Grid, dim: int) -> LinearPath | None:
        """Build the linear path of a network that is `dim` wide; it is not fitted to any data yet."""
        return LinearPath(grid, self.prediction_order, dim, self.opening_samples) if self.prediction_order else None


HeadConfig = Annotated[CategoricalHeadConfig | DmlHeadConfig, Field(discriminator="kind")]


class SashimiModelConfig(SashimiConfig):
    """The network and its head, written as `output_head: dml`, `n_mixtures: 10` and `prediction_order: 16`."""

    output_head: HeadConfig = CategoricalHeadConfig()

    @model_validator(mode="before")
    @classmethod
    def _read_head(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        read = dict(values)
        head = read.pop("output_head", None)
        given = {
            name: read.pop(name, None)
            for name in ("n_mixtures", "prediction_order", "opening_samples", "moment_weight")
        }
        given = {name: value for name, value in given.items() if value is not None}
        if head is None:
            head = CategoricalHeadConfig().kind
        if isinstance(head, str):
            head = {"kind": head}
        if given and isinstance(head, Mapping):
            if head.get("kind") == CategoricalHeadConfig().kind:
                name, value = next(iter(given.items()))
                raise ValueError(f"{name}: found {value} with a categorical head, which has none; remove it")
            head = {**head, **given}
        return {**read, "output_head": head}
